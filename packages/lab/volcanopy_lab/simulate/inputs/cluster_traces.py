"""Traces of clusters as CSV: openb (Alibaba), Philly and Helios, Google's Borg."""

import math
from collections.abc import Iterable

from volcanopy.api import core, names
from volcanopy_lab.simulate.cluster_description import equal_nodes
from volcanopy_lab.simulate.inputs.columns import Row, Trace, TraceFormat, rows
from volcanopy_lab.simulate.workload import Job

CARD = 1000
"""GPU memory of a card of an openb trace: a thousandth of a card is a unit."""
MODEL = "gpu-model"
"""Label of nodes with the model of their cards."""

OPENB = TraceFormat(
    "openb",
    {
        "name": ("name",),
        "cpu": ("cpu_milli",),
        "memory": ("memory_mib",),
        "gpus": ("num_gpu",),
        "share": ("gpu_milli",),
        "models": ("gpu_spec",),
        "class": ("qos",),
        "submit": ("creation_time",),
        "end": ("deletion_time",),
        "start": ("scheduled_time",),
    },
    (("name",), ("cpu",), ("gpus",), ("submit",)),
    frozenset({"pod_phase"}),
)
OPENB_NODES = TraceFormat(
    "openb node list",
    {"name": ("sn",), "cpu": ("cpu_milli",), "memory": ("memory_mib",), "gpus": ("gpu",), "model": ("model",)},
    (("name",), ("cpu",), ("memory",), ("gpus",)),
)
PHILLY = TraceFormat(
    "Philly or Helios",
    {
        "name": ("job_id", "jobid"),
        "submit": ("submit_time", "submitted_time"),
        "run_time": ("duration", "run_time", "runtime"),
        "start": ("start_time",),
        "end": ("end_time", "finish_time"),
        "gpus": ("gpu_num", "num_gpus", "gpus"),
        "cpus": ("cpu_num", "num_cpus", "cpus"),
        "nodes": ("node_num", "num_nodes"),
        "user": ("user",),
        "queue": ("vc", "queue"),
        "program": ("job_name", "jobname"),
        "estimate": ("requested_time", "time_limit"),
    },
    (("name",), ("submit",), ("gpus",), ("run_time", "end")),
    frozenset({"state", "status", "attempts", "date"}),
)
BORG = TraceFormat(
    "Borg",
    {
        "name": ("collection_id", "job_id"),
        "microseconds": ("time",),
        "submit": ("submit_time",),
        "run_time": ("duration", "run_time"),
        "start": ("start_time",),
        "end": ("end_time",),
        "cpus": ("resource_request.cpus", "cpu_request", "cpus"),
        "memory": ("resource_request.memory", "memory_request", "memory"),
        "pods": ("num_instances", "instance_num", "instances"),
        "priority": ("priority",),
        "user": ("user",),
        "program": ("collection_logical_name",),
    },
    (("name",), ("microseconds", "submit"), ("run_time", "end"), ("cpus",)),
    frozenset({"type", "scheduling_class", "instance_index", "machine_id", "collection_type"}),
)


def read_openb(lines: Iterable[str]) -> Trace:
    """Return the pods of an openb trace, a job each. Raises WorkloadError.

    A pod with a share of a card requests GPU memory of :data:`CARD` units a card, one with whole cards their number. The models
    that it allows are an affinity to the label :data:`MODEL`. A pod runs from its scheduling to its deletion.
    """
    trace = Trace()
    for row in rows(lines, OPENB, trace):
        submit, end = row.given("submit", row.time("submit")), row.time("end")
        start = row.time("start")
        begin = start if math.isfinite(start) else submit
        run_time = end - begin if end > begin else math.inf
        gpus, share = int(row.amount("gpus", 0.0)), int(row.amount("share", 0.0))
        requests = {
            "cpu": f"{int(row.given('cpu', row.amount('cpu')))}m",
            "memory": f"{int(row.amount('memory', 0.0))}Mi",
        }
        if gpus == 1 and 0 < share < CARD:
            requests[names.GPU_MEMORY] = str(share)
        elif gpus:
            requests[names.GPU_NUMBER] = str(gpus)
        models = [model for model in row.text("models").split("|") if model]
        trace.jobs.append(
            Job(
                row.text("name"),
                submit,
                run_time,
                requests=requests,
                affinity=models_affinity(models) if models else None,
            )
        )
    return trace


def models_affinity(models: list[str]) -> core.Affinity:
    """Return the affinity to nodes with one of these models of cards."""
    requirement = core.Requirement(key=MODEL, operator="In", values=tuple(models))
    term = core.NodeSelectorTerm(match_expressions=(requirement,))
    return core.Affinity(node_affinity=core.NodeAffinity(required=core.NodeSelector(node_selector_terms=(term,))))


def read_openb_nodes(lines: Iterable[str]) -> list[core.Node]:
    """Return the nodes of an openb node list. Raises WorkloadError."""
    result = []
    for row in rows(lines, OPENB_NODES, Trace()):
        amounts = {
            "cpu": f"{int(row.given('cpu', row.amount('cpu')))}m",
            "memory": f"{int(row.given('memory', row.amount('memory')))}Mi",
            "pods": "1000",
        }
        gpus = int(row.amount("gpus", 0.0))
        if gpus:
            amounts |= {names.GPU_NUMBER: str(gpus), names.GPU_MEMORY: str(gpus * CARD)}
        model = row.text("model")
        (node,) = equal_nodes(1, amounts, row.text("name"), {MODEL: model} if model else {})
        result.append(
            core.Node(
                metadata=core.Meta(name=row.text("name"), uid=row.text("name"), labels=node.metadata.labels),
                status=node.status,
            )
        )
    return result


def read_philly(lines: Iterable[str]) -> Trace:
    """Return the jobs of a Philly or Helios trace. Raises WorkloadError.

    A job has a pod on each of its nodes, or pods of up to 8 cards; each card has 4 cpus where the trace has none.
    """
    trace = Trace()
    for row in rows(lines, PHILLY, trace):
        run_time = _run_time(row)
        gpus = int(row.amount("gpus", 0.0))
        if not math.isfinite(run_time) or run_time <= 0:
            trace.leave_out("no run time")
            continue
        cpus = row.amount("cpus", 0.0) or max(4.0 * gpus, 1.0)
        pods = max(int(row.amount("nodes", 0.0)), math.ceil(gpus / 8), 1)
        requests = {"cpu": f"{math.ceil(1000 * cpus / pods)}m"}
        if gpus:
            requests["nvidia.com/gpu"] = str(math.ceil(gpus / pods))
        trace.jobs.append(
            Job(
                _name(row),
                row.given("submit", row.time("submit")),
                run_time,
                pods,
                requests,
                queue=_object_name(row.text("queue")) or names.DEFAULT_QUEUE,
                user=row.text("user"),
                estimate=row.amount("estimate", 0.0),
            )
        )
    return trace


def read_borg(lines: Iterable[str], cpus: float = 1.0, memory: float = 1.0) -> Trace:
    """Return the jobs of a Borg trace. Raises WorkloadError.

    Its requests are parts of the largest machine, which has ``cpus`` cores and ``memory`` bytes here. Times in the column
    ``time`` are microseconds, as are the durations beside it.
    """
    trace = Trace()
    for row in rows(lines, BORG, trace):
        when, unit = ("microseconds", 1e-6) if row.text("microseconds") else ("submit", 1.0)
        run_time = _run_time(row) * unit
        if not math.isfinite(run_time) or run_time <= 0:
            trace.leave_out("no run time")
            continue
        requests = {"cpu": f"{max(math.ceil(1000 * row.given('cpus', row.amount('cpus')) * cpus), 1)}m"}
        if (part := row.amount("memory", 0.0)) > 0:
            requests["memory"] = str(math.ceil(part * memory))
        trace.jobs.append(
            Job(
                _name(row),
                row.given(when, row.time(when)) * unit,
                run_time,
                max(int(row.amount("pods", 1.0)), 1),
                requests,
                user=row.text("user"),
                priority=int(row.amount("priority", 0.0)),
            )
        )
    return trace


def _run_time(row: Row) -> float:
    run_time = row.amount("run_time")
    return run_time if math.isfinite(run_time) else row.time("end") - row.time("start")


def _name(row: Row) -> str:
    """Return the name of a job: that of its program, where the trace has it, with its number."""
    program = _object_name(row.text("program"))
    number = _object_name(row.text("name"))
    return f"{program}-{number}" if program else f"job-{number}"


def _object_name(text: str) -> str:
    """Return a text as the name of an object of Kubernetes."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower()).strip("-")[:50]
