"""Estimated starts of waiting jobs: the engine under virtual time, in which jobs end when they are expected to.

The run is one for all jobs, so that each is estimated with the others before it. Jobs that start meanwhile end by their own
run times. An estimate is only as good as the ends before it: its basis is the least certain of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from volcanopy.api import core
from volcanopy.api.model import Json
from volcanopy.api.times import format_time
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.messages import short
from volcanopy.scheduler.model.run_times import Basis, RunTime
from volcanopy.whatif.changes import Delete
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import end_pod, without
from volcanopy.whatif.engine import Budget, BudgetEndedError, Engine, Run, expected_end, is_running
from volcanopy.whatif.flows import flow_steps
from volcanopy.whatif.target import jobs_and_pods, owner_of, targets

HORIZON = timedelta(days=30)
"""The longest time until an estimated start."""
NOW = "now"
"""The basis of a start that waits for no end."""
NEVER = "it does not start when other jobs have ended"
"""Why the start of a job is unknown that waits for something else."""
_CERTAINTY = (Basis.WALLTIME, Basis.ESTIMATE, Basis.LEARNT, Basis.OVERDUE)


@dataclass(frozen=True)
class StartEstimate:
    """When a job is expected to start, and what that follows from; or why that is not known."""

    time: datetime | None = None
    basis: str = ""
    """``now``, ``walltime``, ``estimate``, ``learnt`` or ``overdue``: the least certain of the ends that the job waits for."""
    message: str = ""
    """Why the time is unknown."""

    def document(self) -> Json:
        """Return the estimate as JSON, as in the status of a PodGroup."""
        time = format_time(self.time) if self.time is not None else ""
        fields = {"time": time, "basis": self.basis, "message": self.message}
        return {name: text for name, text in fields.items() if text}


def estimated_starts(engine: Engine, budget: Budget, horizon: timedelta = HORIZON) -> dict[str, StartEstimate]:
    """Return the estimated starts of all jobs of a settled engine that wait or that flows create, by pod group.

    The cluster stays as it is.
    """
    steps = (step.target for step in flow_steps(engine.cluster, engine.now) if step.body is not None)
    waiting = frozenset(target.group for target in (*targets(engine.cluster), *steps))
    if not waiting:
        return {}
    with engine.cluster.trial():
        try:
            run = engine.run(budget, waiting, until=engine.now + horizon)
        except BudgetEndedError:
            return dict.fromkeys(sorted(waiting), StartEstimate(message="the search took too long"))
        result = {group: estimate(run, engine, group) for group in sorted(run.started)}
        unknown = sorted(waiting - run.started.keys())
        if unknown:
            endless = _without_end(engine.cluster, engine.now)
            result |= {group: _unknown(run, group, endless) for group in unknown}
            result |= dict.fromkeys(_never_starting(engine, budget, unknown), StartEstimate(message=NEVER))
    return result


def _never_starting(engine: Engine, budget: Budget, groups: Iterable[str]) -> list[str]:
    """Return those of the waiting jobs that do not start either when all running pods have ended, however long that takes.

    Jobs that start meanwhile end as well. Jobs that have ended are removed, but for those of flows, whose next jobs follow.
    """
    waiting = set(groups)
    ended = {(step.kind, step.key) for step in _ends(engine.cluster, waiting)}
    cluster = without(engine.cluster, lambda key, _: key in ended)
    try:
        while waiting:
            for pod in filter(is_running, cluster.of_kind("Pod").values()):
                end_pod(cluster, pod)
            started = replace(engine, cluster=cluster).run(budget, frozenset(waiting)).started.keys() & waiting
            if not started:
                break
            waiting -= started
    except BudgetEndedError:
        return []
    return sorted(waiting)


def _ends(cluster: Cluster, waiting: set[str]) -> Iterator[Delete]:
    """Yield the steps that remove the jobs and pods that run, without the jobs of flows."""
    for group, _, _, _, steps in jobs_and_pods(cluster):
        job: Json = next((cluster.objects["BatchJob", step.key] for step in steps if step.kind == "BatchJob"), {})
        owners = (job.get("metadata") or {}).get("ownerReferences") or ()
        runs = any(is_running(cluster.objects["Pod", step.key]) for step in steps if step.kind == "Pod")
        if runs and group not in waiting and all(owner.get("kind") != "JobFlow" for owner in owners):
            yield from steps


def estimate(run: Run, engine: Engine, group: str) -> StartEstimate:
    """Return the estimated start of a job that started in a run."""
    time = run.started[group]
    before = {basis for end, basis in run.bases if end <= time}
    if time <= engine.now or not before:
        return StartEstimate(time, NOW)
    return StartEstimate(time, max(before, key=_CERTAINTY.index).value)


def _unknown(run: Run, group: str, endless: Sequence[str]) -> StartEstimate:
    """Return why a job has not started at the end of a run: a job that is before it, or any, has no end; else all have ended."""
    explanation = run.explanations.get(group)
    blocking = [name.removeprefix("job ") for name in (explanation.blocked_by if explanation else ())]
    endless_job = next((job for job in blocking if job in endless), "")
    if endless_job or len(endless) == 1:
        return StartEstimate(message=f"job {short(endless_job or endless[0])} declares no run time")
    if not endless:
        return StartEstimate(message=NEVER)
    other_jobs = f"{len(endless) - 1} other job{'s' if len(endless) > 2 else ''}"
    return StartEstimate(message=f"job {short(endless[0])} and {other_jobs} declare no run time")


def _job_of(cluster: Cluster, pod: core.Pod) -> str:
    """Return ``namespace/name`` of the job of a pod; of its group, or itself, if it belongs to no job."""
    key = pod_fields.job_key(pod)
    group = cluster.group(key)
    owner = owner_of(group) if group is not None else ""
    return f"{pod.metadata.namespace}/{owner}" if owner else key or pod.metadata.key


def _without_end(cluster: Cluster, begin: datetime) -> list[str]:
    """Return the running jobs, by name, whose end is not known: those with most pods first."""
    counts, run_times = dict[str, int](), dict[str, RunTime]()
    for pod in cluster.of_kind("Pod").values():
        if is_running(pod) and expected_end(cluster, pod, begin, run_times) is None:
            name = _job_of(cluster, pod)
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))
