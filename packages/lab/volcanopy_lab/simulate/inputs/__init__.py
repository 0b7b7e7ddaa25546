"""Readers of workloads in files: traces of clusters, archives and finished jobs."""

from volcanopy_lab.simulate.inputs.cluster_traces import (
    BORG,
    OPENB,
    PHILLY,
    read_borg,
    read_openb,
    read_openb_nodes,
    read_philly,
)
from volcanopy_lab.simulate.inputs.columns import Trace, from_beginning
from volcanopy_lab.simulate.inputs.finished_jobs import read_finished_jobs
from volcanopy_lab.simulate.inputs.swf import read_swf
from volcanopy_lab.simulate.workload import WorkloadError

FORMATS = ("swf", "openb", "philly", "borg", "jobs")
_TABLES = {"openb": OPENB, "philly": PHILLY, "borg": BORG}

__all__ = ["FORMATS", "detected", "read_openb_nodes", "read_workload"]


def detected(text: str) -> str:
    """Return the format of a file by its beginning. Raises WorkloadError."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first.startswith("{"):
        return "jobs"
    if first.startswith(";") or (len(first.split()) >= 18 and "," not in first):
        return "swf"
    headings = [heading.strip() for heading in first.split(",")]
    scores = {name: known.score(headings) for name, known in _TABLES.items()}
    best = max(scores, key=lambda name: scores[name])
    if not first:
        raise WorkloadError("the file is empty")
    if scores[best] < 2:
        raise WorkloadError(f"the format is none of {', '.join(FORMATS)}: the columns are {', '.join(headings)[:200]}")
    return best


def read_workload(text: str, kind: str = "", *, pod_cpus: int = 1, machine: tuple[float, float] = (1.0, 1.0)) -> Trace:
    """Return the jobs of a file, of which the first is submitted at 0. Raises WorkloadError.

    ``kind`` is one of :data:`FORMATS`, by default what the file looks like. ``pod_cpus``: processors of a pod of an SWF trace.
    ``machine``: cores and bytes of the largest node, of which requests of a Borg trace are parts.
    """
    lines = text.splitlines()
    match kind or detected(text):
        case "swf":
            trace = read_swf(lines, pod_cpus)
        case "openb":
            trace = read_openb(lines)
        case "philly":
            trace = read_philly(lines)
        case "borg":
            trace = read_borg(lines, *machine)
        case "jobs":
            trace = read_finished_jobs(text)
        case other:
            raise WorkloadError(f"the format must be one of {', '.join(FORMATS)}, not {other!r}")
    if not trace.jobs:
        raise WorkloadError("the workload has no jobs" + "".join(f"; {note}" for note in trace.all_notes()))
    trace.jobs = from_beginning(trace.jobs)
    return trace
