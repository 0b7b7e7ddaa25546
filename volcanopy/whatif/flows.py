"""Flows in a what-if question: the jobs of their steps are created when the steps before them have completed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from volcanopy.api import graphs
from volcanopy.api.flow import FlowPhase, JobFlow, JobFlowStatus
from volcanopy.api.model import Json
from volcanopy.jobcontroller.flow_jobs import FlowObserved, FlowPlan, job_name, made_of
from volcanopy.jobcontroller.flows import reconcile_flow
from volcanopy.jobcontroller.plan import CreateJob, UpdateStatus
from volcanopy.whatif import kinds
from volcanopy.whatif.admission import admit, templates_of
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import read_job
from volcanopy.whatif.target import Target

_ENDED = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})


@dataclass(frozen=True)
class FlowStep:
    """A step of a flow without a job. ``body`` is the job, None if it cannot be created; ``message`` is why there is none yet."""

    target: Target
    after: tuple[str, ...]
    """The jobs that must complete before."""
    message: str
    body: Json | None


def create_jobs(cluster: Cluster, now: datetime) -> bool:
    """Create the jobs of flows that wait for no others; return whether there are any."""
    is_changed = False
    for flow, plan, _ in _plans(cluster, now):
        for effect in plan.effects:
            if isinstance(effect, UpdateStatus):
                cluster.put_workload({**cluster.body("JobFlow", _key(flow)), "status": effect.status})
            elif isinstance(effect, CreateJob) and ("BatchJob", kinds.key_of(effect.manifest)) not in cluster.objects:
                admitted = admit(cluster, effect.manifest)
                if not admitted.problems:
                    cluster.put_workload(kinds.created(admitted.body, now))
                    is_changed = True
    return is_changed


def flow_steps(cluster: Cluster, now: datetime) -> list[FlowStep]:
    """Return the steps of all flows that have no job yet, each flow's by levels."""
    return [
        step for flow, plan, observed in _plans(cluster, now) for step in _steps(cluster, flow, plan, observed, now)
    ]


def _steps(
    cluster: Cluster, flow: JobFlow, plan: FlowPlan, observed: FlowObserved, now: datetime
) -> Iterator[FlowStep]:
    statuses = (JobFlowStatus.read(effect.status) for effect in plan.effects if isinstance(effect, UpdateStatus))
    status = next(statuses, flow.status)
    if status.state.phase in _ENDED:
        return
    entries = {entry.name: entry for entry in status.job_status_list}
    steps, graph = flow.spec.jobs, graphs.flow_graph(flow.spec.jobs)
    if not graphs.cycle(graph):
        levels = graphs.levels(graph)
        steps = sorted(steps, key=lambda step: levels[step.name])
    for step in steps:
        entry, key = entries[step.name], f"{flow.metadata.namespace}/{job_name(flow, step)}"
        if entry.state or ("BatchJob", key) in cluster.objects:
            continue
        body, reason = made_of(flow, step, observed.templates, entry.attempt)
        if body is not None:
            admitted = admit(cluster, body)
            body, reason = kinds.created(admitted.body, now), "; ".join(admitted.problems)
        if reason or not entry.message.startswith("waiting for"):
            body = None
        after = [f"{flow.metadata.name}-{target}" for target in step.targets if entries[target].state != "Completed"]
        uid = "" if body is None else body["metadata"]["uid"]
        yield FlowStep(Target(f"{key}-{uid}", key, job_name(flow, step)), tuple(after), reason or entry.message, body)


def _plans(cluster: Cluster, now: datetime) -> Iterator[tuple[JobFlow, FlowPlan, FlowObserved]]:
    """Yield the flows that have not ended, what their controller does, and what it does that for."""
    for manifest in cluster.of_kind("JobFlow").values():
        flow = JobFlow.read(manifest)
        if flow.status.state.phase not in _ENDED:
            namespace, names = flow.metadata.namespace, [job_name(flow, step) for step in flow.spec.jobs]
            bodies = {name: cluster.objects.get(("BatchJob", f"{namespace}/{name}")) for name in names}
            jobs = {name: read_job(body) for name, body in bodies.items() if body is not None}
            observed = FlowObserved(templates=templates_of(cluster, namespace), jobs=jobs)
            yield flow, reconcile_flow(flow, observed, now), observed


def _key(flow: JobFlow) -> str:
    return f"{flow.metadata.namespace}/{flow.metadata.name}"
