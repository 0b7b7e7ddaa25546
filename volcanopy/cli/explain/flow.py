"""Report of a job flow: the levels of its jobs, its critical path and its expected end.

1. A job is expected to take the mean time from creation to end of the completed jobs of its template, in the flows of its namespace;
   without one, the runningEstimate of its template with the patch of the flow.
2. The critical path is the path with the longest sum of these times; what a job has taken already counts as it is. A job whose
   time is unknown counts as the mean of the others.
3. The flow is expected to end after the longest path of what remains. Where a job has neither time that is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from volcanopy.api import graphs
from volcanopy.api.flow_read import FlowJob, FlowJobStatus, JobFlow, JobTemplate
from volcanopy.client.durations import local_time, span
from volcanopy.kube.client.kinds import Json

_LOST = frozenset({"Failed", "Terminated", "Aborted"})


@dataclass(frozen=True)
class Step:
    """A job of a flow. ``taken`` and ``expected`` are seconds, None where there are none."""

    name: str
    template: str
    level: int
    targets: tuple[str, ...]
    phase: str
    taken: float | None
    expected: float | None

    @property
    def total(self) -> float:
        """Seconds from its creation to its end, as far as they are known."""
        taken = self.taken or 0.0
        return taken if self.phase == "Completed" else max(taken, self.expected or 0.0)

    @property
    def remaining(self) -> float:
        """Seconds that it is expected to take from now on."""
        return 0.0 if self.phase == "Completed" else self.total - (self.taken or 0.0)


@dataclass(frozen=True)
class FlowReport:
    """A flow with its steps in the order of their levels.

    ``expected_end`` is None when the flow has ended or cannot complete, or when the templates of ``unknown`` have neither a
    completed job nor an estimate.
    """

    name: str
    steps: tuple[Step, ...]
    critical_path: tuple[str, ...]
    expected_end: datetime | None
    unknown: tuple[str, ...]

    @property
    def critical_seconds(self) -> float:
        """The length of the critical path."""
        return sum(step.total for step in self.steps if step.name in self.critical_path)

    def path_text(self) -> str:
        """Return the critical path with its length."""
        least = "at least " if self.unknown else ""
        return f"{' -> '.join(self.critical_path)} ({least}{span(self.critical_seconds)})"

    def end_text(self, now: datetime) -> str:
        """Return when the flow is expected to end; empty if it has ended or cannot complete."""
        if self.expected_end is not None:
            return f"{local_time(self.expected_end)} (in {span((self.expected_end - now).total_seconds())})"
        if self.unknown:
            return f"unknown: no completed job and no runningEstimate of template {', '.join(self.unknown)}"
        return ""

    def document(self) -> Json:
        """Return the report as an object."""
        return {
            "apiVersion": "volcanopy.io/v1alpha1",
            "kind": "JobFlowTree",
            "name": self.name,
            "criticalPath": list(self.critical_path),
            "criticalPathSeconds": round(self.critical_seconds),
            **({"expectedEnd": self.expected_end.isoformat()} if self.expected_end else {}),
            "unknownTemplates": list(self.unknown),
            "jobs": [_document(step) for step in self.steps],
        }


def _document(step: Step) -> Json:
    seconds = {"seconds": step.taken, "expectedSeconds": step.expected}
    return {
        "name": step.name,
        "template": step.template,
        "level": step.level,
        "dependsOn": list(step.targets),
        "phase": step.phase,
        **{name: round(value) for name, value in seconds.items() if value is not None},
    }


def flow_report(flow: JobFlow, flows: Iterable[JobFlow], templates: Iterable[JobTemplate], now: datetime) -> FlowReport:
    """Return the report; flows and templates are those of its namespace.

    Raises ValueError when the dependencies have a cycle.
    """
    graph = graphs.flow_graph(flow.spec.flows)
    if path := graphs.cycle(graph):
        raise ValueError(f'dependsOn of job flow "{flow.metadata.name}" has a cycle: {path}: create a new flow')
    times, estimates = _mean_times(flows), {item.metadata.name: item.spec.running_estimate for item in templates}
    levels, entries = graphs.levels(graph), {entry.name: entry for entry in flow.status.job_status_list}
    steps = tuple(
        sorted(
            (
                Step(
                    job.name,
                    template := job.template or job.name,
                    levels[job.name],
                    job.depends_on.targets if job.depends_on else (),
                    (entry := entries.get(job.name, FlowJobStatus())).state,
                    _taken(entry, now),
                    times.get(template) or _estimate(job, estimates.get(template, "")),
                )
                for job in flow.spec.flows
            ),
            key=lambda step: step.level,
        )
    )
    open_steps = [step for step in steps if step.phase != "Completed"]
    unknown = tuple(sorted({step.template for step in open_steps if step.expected is None}))
    lost = any(step.phase in _LOST for step in steps) or flow.status.state.phase in {"Succeed", "Failed"}
    remaining = {step.name: step.remaining for step in steps}
    longest = sum(remaining[name] for name in graphs.critical_path(graph, remaining))
    return FlowReport(
        flow.metadata.name,
        steps,
        tuple(graphs.critical_path(graph, _weights(steps))),
        None if unknown or lost or not open_steps else now + timedelta(seconds=round(longest)),
        () if lost else unknown,
    )


def _estimate(job: FlowJob, estimate: str) -> float | None:
    """Return the seconds of the estimate of a job: that of its template, unless the flow changes it."""
    from volcanopy.api.model import parse_duration

    patch = job.patch.job_spec if job.patch else {}
    try:
        return parse_duration(patch.get("runningEstimate", estimate)).total_seconds()
    except ValueError:
        return None


def _weights(steps: Sequence[Step]) -> Mapping[str, float]:
    """Return the seconds of each job for the critical path."""
    mean = fmean([step.total for step in steps if step.total] or [1.0])
    return {step.name: step.total or mean for step in steps}


def _mean_times(flows: Iterable[JobFlow]) -> Mapping[str, float]:
    """Return the mean seconds from creation to end of completed jobs, by template."""
    times: dict[str, list[float]] = {}
    for flow in flows:
        templates = {job.name: job.template or job.name for job in flow.spec.flows}
        for entry in flow.status.job_status_list:
            taken = _taken(entry, None) if entry.state == "Completed" else None
            if taken is not None and entry.name in templates:
                times.setdefault(templates[entry.name], []).append(taken)
    return {template: fmean(seconds) for template, seconds in times.items()}


def _taken(entry: FlowJobStatus, now: datetime | None) -> float | None:
    end = entry.end_timestamp or now
    if not entry.state or entry.start_timestamp is None or end is None:
        return None
    return max((end - entry.start_timestamp).total_seconds(), 0.0)
