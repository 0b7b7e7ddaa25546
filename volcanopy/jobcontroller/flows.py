"""Reconciliation of a flow: creation of jobs in the order of their dependencies, and its status.

Each job has an entry in the status of the flow. An entry in state Completed does not change again. When a job has failed and
may be retried, the number of the next attempt is written there first; then the job is deleted and created with that number.
A controller that crashes at any point therefore creates no job twice and exceeds no retry limit.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from volcanopy.api import graphs
from volcanopy.api.batch import BatchJob, Phase
from volcanopy.api.flow import (
    FlowJob,
    FlowJobStatus,
    FlowPhase,
    FlowState,
    JobFlow,
    JobFlowStatus,
    JobTemplate,
    RunningHistory,
)
from volcanopy.api.messages import shortened
from volcanopy.api.model import Json
from volcanopy.jobcontroller.flow_jobs import (
    CommandJob,
    FlowEffect,
    FlowObserved,
    FlowPlan,
    PodProbe,
    Waiting,
    attempt_of,
    job_name,
    made_of,
)
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, RecordEvent, UpdateStatus, status_json

PROBE_INTERVAL = timedelta(seconds=5)
"""Interval of probes."""
MOST_DEPENDENTS = 500
"""Jobs in the status of a template: that of each is written again with every new one."""
_REMEMBERED = 20
_LOST = frozenset({"Failed", "Terminated"})
_ENDABLE = frozenset({"", "Pending", "Running", "Restarting"})
_LISTED = {
    "": "pending_jobs",
    "Pending": "pending_jobs",
    "Running": "running_jobs",
    "Restarting": "running_jobs",
    "Completing": "running_jobs",
    "Completed": "completed_jobs",
    "Failed": "failed_jobs",
    "Terminating": "terminated_jobs",
    "Terminated": "terminated_jobs",
    "Aborting": "terminated_jobs",
    "Aborted": "terminated_jobs",
}


def reconcile_flow(flow: JobFlow, seen: FlowObserved, now: datetime) -> FlowPlan:
    """Return the plan for a flow."""
    if flow.metadata.deletion_timestamp is not None:
        return FlowPlan()
    now = now.replace(microsecond=0)
    before = {entry.name: entry for entry in flow.status.job_status_list}
    entries = {step.name: _entry(flow, step, before.get(step.name), seen, now) for step in flow.spec.jobs}
    state = _state(flow, entries, now)
    making, pod_probes = _to_make(flow, state, entries, seen)
    if state.phase in {FlowPhase.PENDING, FlowPhase.RUNNING}:
        state = _with_progress(state, entries, making, seen)
    status = _status(flow, state, entries)
    effects: list[FlowEffect] = []
    if status.write() != flow.status.write():
        effects.append(UpdateStatus(status_json(status)))
        effects += _announced(flow, state, before, entries)
    effects += _away(flow, state, entries, seen)
    effects += [CreateJob(made) for made in making.values() if isinstance(made, dict)]
    return FlowPlan(tuple(effects), now + PROBE_INTERVAL if pod_probes else None, tuple(pod_probes))


def dependents(template: JobTemplate, jobs: Iterable[str]) -> list[str] | None:
    """Return the status list of a template, given the jobs created from it; None if it is up to date."""
    names = sorted(islice(jobs, MOST_DEPENDENTS))
    return None if names == template.status.job_depends_on_list else names


def _entry(
    flow: JobFlow, step: FlowJob, before: FlowJobStatus | None, seen: FlowObserved, now: datetime
) -> FlowJobStatus:
    """Return the entry of a job from the previous entry and the observed job."""
    entry = before or FlowJobStatus(name=step.name)
    job = seen.jobs.get(job_name(flow, step))
    if entry.state == "Completed":
        return entry
    if job is None or attempt_of(job) < entry.attempt:
        final = entry.state in _LOST and job is None
        return entry if final else _left(entry, now)
    phase = job.status.state.phase or Phase.PENDING
    if phase is Phase.FAILED and entry.attempt < step.max_retry and flow.status.state.phase is not FlowPhase.FAILED:
        message = f"attempt {entry.attempt + 1} failed ({job.status.state.message}): creating the job again"
        return _left(entry, now).model_copy(update={"attempt": entry.attempt + 1, "message": message})
    ended = job.status.state.last_transition_time if phase in FINISHED else None
    return entry.model_copy(
        update={
            "state": str(phase),
            "message": job.status.state.message,
            "start_timestamp": job.metadata.creation_timestamp,
            "end_timestamp": ended,
            "restart_count": job.status.retry_count,
            "running_duration": job.status.running_duration,
            "running_histories": _history(entry, str(phase), now, ended),
        }
    )


def _left(entry: FlowJobStatus, now: datetime) -> FlowJobStatus:
    """Return the entry of a job that does not exist or must be created again."""
    if not entry.state:
        return entry
    closed = _history(entry, "", now, now)
    return entry.model_copy(update={"state": "", "end_timestamp": now, "running_histories": closed})


def _history(entry: FlowJobStatus, phase: str, now: datetime, ended: datetime | None) -> list[RunningHistory]:
    histories = list(entry.running_histories)
    if histories and histories[-1].state == phase:
        return histories
    if histories and histories[-1].end_timestamp is None:
        histories[-1] = histories[-1].model_copy(update={"end_timestamp": now})
    if phase:
        histories.append(RunningHistory(state=phase, start_timestamp=ended or now, end_timestamp=ended))
    return histories[-_REMEMBERED:]


def _state(flow: JobFlow, entries: Mapping[str, FlowJobStatus], now: datetime) -> FlowState:
    """Return the state of the flow from its jobs. Succeed and Failed are final."""
    current = flow.status.state
    if current.phase in {FlowPhase.SUCCEED, FlowPhase.FAILED}:
        return current
    if all(entry.state == "Completed" for entry in entries.values()):
        message = f"{len(entries)}/{len(entries)} jobs completed"
        return _entered(current, FlowPhase.SUCCEED, "JobsCompleted", message, now)
    lost = [entry for entry in entries.values() if entry.state in _LOST]
    if lost and (flow.spec.failure_policy != "continue" or not _goes_on(flow, entries)):
        message = "; ".join(f"{entry.name} is {entry.state}: {entry.message}" for entry in lost)
        return _entered(current, FlowPhase.FAILED, "JobFailed", message, now)
    begun = any(entry.state not in {"", "Pending"} for entry in entries.values())
    if begun or current.phase is FlowPhase.RUNNING:
        return _entered(current, FlowPhase.RUNNING, "JobsRunning", "", now)
    return _entered(current, FlowPhase.PENDING, "JobsPending", "", now)


def _goes_on(flow: JobFlow, entries: Mapping[str, FlowJobStatus]) -> bool:
    """Return whether a job is running or can still be created."""
    hopeless = _hopeless(flow, entries)
    return any(name not in hopeless and entry.state != "Completed" for name, entry in entries.items())


def _hopeless(flow: JobFlow, entries: Mapping[str, FlowJobStatus]) -> frozenset[str]:
    """Return failed jobs and the jobs that depend on them and do not exist yet."""
    lost = [name for name, entry in entries.items() if entry.state in _LOST]
    waiting = (name for name, entry in entries.items() if not entry.state)
    return graphs.unreachable_after(graphs.flow_graph(flow.spec.jobs), lost, waiting) if lost else frozenset()


def _entered(current: FlowState, phase: FlowPhase, reason: str, message: str, now: datetime) -> FlowState:
    since = current.last_transition_time if current.phase is phase else now
    return FlowState(phase=phase, reason=reason, message=message, last_transition_time=since)


def _to_make(
    flow: JobFlow, state: FlowState, entries: dict[str, FlowJobStatus], seen: FlowObserved
) -> tuple[dict[str, Json | str], list[PodProbe]]:
    """Return the manifest of each missing job or the reason why it is not created, and the probes to run.

    The reason is written into the entry of the job.
    """
    making: dict[str, Json | str] = {}
    pod_probes: list[PodProbe] = []
    hopeless = _hopeless(flow, entries)
    for step in flow.spec.jobs:
        entry = entries[step.name]
        if entry.state:
            continue
        made: Json | None = None
        if step.name in hopeless:
            message = f"dependencies failed: {', '.join(sorted(hopeless.intersection(step.targets)))}"
        elif state.phase is FlowPhase.FAILED:
            message = "not created: the flow has failed"
        elif (waiting := Waiting(flow, step, entries, seen)).reasons:
            message = "; ".join(waiting.reasons)
            pod_probes += waiting.pod_probes
        else:
            made, message = made_of(flow, step, seen.templates, entry.attempt)
        if made is None:
            making[step.name] = message
        elif job_name(flow, step) not in seen.jobs:
            making[step.name] = made
        if made is None or not entry.attempt:  # that of a retry stays until the job exists
            entries[step.name] = entry.model_copy(update={"message": message})
    return making, pod_probes


def _with_progress(
    state: FlowState, entries: Mapping[str, FlowJobStatus], making: Mapping[str, Json | str], seen: FlowObserved
) -> FlowState:
    """Return the state with the progress of the flow as message, and jobs that cannot be created."""
    if seen.trouble:
        return state.model_copy(update={"reason": "FailedSync", "message": shortened(seen.trouble)})
    counts: dict[str, int] = {}
    for entry in entries.values():
        counts[entry.state or "waiting"] = counts.get(entry.state or "waiting", 0) + 1
    far = ", ".join(f"{number} {what.lower()}" for what, number in sorted(counts.items()))
    stuck = [
        f"{name}: {why}" for name, why in making.items() if isinstance(why, str) and not why.startswith("waiting for")
    ]
    reason = "Stuck" if stuck else state.reason
    return state.model_copy(update={"reason": reason, "message": "; ".join([f"jobs: {far}", *stuck])})


def _status(flow: JobFlow, state: FlowState, entries: Mapping[str, FlowJobStatus]) -> JobFlowStatus:
    lists: dict[str, list[str]] = {name: [] for name in {*_LISTED.values(), "waiting_jobs"}}
    waits = [(step.name, target) for step in flow.spec.jobs for target in step.targets]
    if state.phase is FlowPhase.PENDING and (path := graphs.dependency_cycle(waits)):
        message = f"dependsOn has a cycle: {path}: create a new flow"
        state = state.model_copy(update={"reason": "DependencyCycle", "message": message})
    for step in flow.spec.jobs:
        entry, name = entries[step.name], job_name(flow, step)
        lists[_LISTED.get(entry.state, "pending_jobs") if entry.state else "waiting_jobs"].append(name)
    return JobFlowStatus(
        state=state,
        job_status_list=[entries[step.name] for step in flow.spec.jobs],
        observed_generation=flow.metadata.generation,
        **lists,
    )


def _away(
    flow: JobFlow, state: FlowState, entries: Mapping[str, FlowJobStatus], seen: FlowObserved
) -> Iterator[FlowEffect]:
    """Yield deletions of jobs of earlier attempts and of finished flows, and terminations in failed flows."""
    for step in flow.spec.jobs:
        job = seen.jobs.get(job_name(flow, step))
        if job is None or job.metadata.deletion_timestamp is not None:
            continue
        over = state.phase is FlowPhase.SUCCEED and flow.spec.job_retain_policy == "delete"
        if over or attempt_of(job) < entries[step.name].attempt:
            yield DeleteJob(job.metadata.name, job.metadata.uid)
        elif state.phase is FlowPhase.FAILED and flow.spec.failure_policy == "terminate" and _endable(job):
            yield CommandJob(job.metadata.name, job.metadata.uid, "TerminateJob", "another job of its flow has failed")


def _endable(job: BatchJob) -> bool:
    return str(job.status.state.phase or "") in _ENDABLE


def _announced(
    flow: JobFlow, state: FlowState, before: Mapping[str, FlowJobStatus], entries: Mapping[str, FlowJobStatus]
) -> Iterator[RecordEvent]:
    current = flow.status.state
    if state.phase is not current.phase:
        assert state.phase is not None
        yield RecordEvent("Warning" if state.phase is FlowPhase.FAILED else "Normal", state.phase, state.message)
    elif state.reason in {"Stuck", "DependencyCycle"} and state.message != current.message:
        yield RecordEvent("Warning", state.reason, state.message)
    for name, entry in entries.items():
        if entry.attempt > (before[name].attempt if name in before else 0):
            yield RecordEvent("Warning", "Retrying", f"{name}: {entry.message}")
