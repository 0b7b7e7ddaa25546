"""A flow, what exists of it and the time in; what to do out.

Each job of a flow has an entry in the flow's status. An entry that says Completed stays so, whatever becomes of the
job; a job that has failed and may be tried again gets the next attempt's number there first, and is then deleted and made
anew with that number. So a controller that dies at any point makes no job twice and tries none once too often.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from volcanopy.api.batch import BatchJob, Phase
from volcanopy.api.dependencies import cycle
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
from volcanopy.api.model import Json
from volcanopy.jobcontroller.flow_jobs import Waiting, attempt_of, job_name, made_of
from volcanopy.jobcontroller.flow_plan import (
    CommandJob,
    CreateJob,
    FlowEffect,
    FlowObserved,
    FlowPlan,
    Knock,
    RemoveJob,
    UpdateFlowStatus,
)
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.jobcontroller.plan import RecordEvent

KNOCK_AGAIN = timedelta(seconds=5)
"""How long after a question that was not answered the next one is asked."""
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
    """What to do for a flow, given what exists of it. Done again on the outcome, it has less and less to do."""
    if flow.metadata.deletion_timestamp is not None:
        return FlowPlan()
    now = now.replace(microsecond=0)
    before = {entry.name: entry for entry in flow.status.job_status_list}
    entries = {step.name: _entry(flow, step, before.get(step.name), seen, now) for step in flow.spec.flows}
    state = _state(flow, entries, now)
    making, knocks = _to_make(flow, state, entries, seen)
    if state.phase in {FlowPhase.PENDING, FlowPhase.RUNNING}:
        state = _told(state, entries, making, seen)
    status = _status(flow, state, entries)
    effects: list[FlowEffect] = []
    if status.write() != flow.status.write():
        effects.append(UpdateFlowStatus(_as_json(status)))
        effects += _announced(flow, state, before, entries)
    effects += _away(flow, state, entries, seen)
    effects += [CreateJob(made) for made in making.values() if isinstance(made, dict)]
    return FlowPlan(tuple(effects), tuple(knocks), now + KNOCK_AGAIN if knocks else None)


def dependents(template: JobTemplate, made: Mapping[str, str]) -> list[str] | None:
    """The status list of a template, given which job was made from which template; None if it says so already."""
    names = sorted(job for job, source in made.items() if source == template.metadata.name)
    return None if names == template.status.job_depends_on_list else names


def _entry(
    flow: JobFlow, step: FlowJob, before: FlowJobStatus | None, seen: FlowObserved, now: datetime
) -> FlowJobStatus:
    """What has become of one job, by what was written before and what is there now."""
    entry = before or FlowJobStatus(name=step.name)
    job = seen.jobs.get(job_name(flow, step))
    if entry.state == "Completed":
        return entry
    if job is None or attempt_of(job) < entry.attempt:
        final = entry.state in _LOST and job is None
        return entry if final else _left(entry, now)
    phase = job.status.state.phase or Phase.PENDING
    if phase is Phase.FAILED and entry.attempt < step.max_retry and flow.status.state.phase is not FlowPhase.FAILED:
        told = f"attempt {entry.attempt + 1} failed ({job.status.state.message}): it is made anew"
        return _left(entry, now).model_copy(update={"attempt": entry.attempt + 1, "message": told})
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
    """The entry of a job that is not there any more, or not as it should be."""
    if not entry.state:
        return entry
    closed = _history(entry, "", now, now)
    return entry.model_copy(update={"state": "", "end_timestamp": now, "running_histories": closed})


def _history(entry: FlowJobStatus, phase: str, now: datetime, ended: datetime | None) -> list[RunningHistory]:
    known = list(entry.running_histories)
    if known and known[-1].state == phase:
        return known
    if known and known[-1].end_timestamp is None:
        known[-1] = known[-1].model_copy(update={"end_timestamp": now})
    if phase:
        known.append(RunningHistory(state=phase, start_timestamp=ended or now, end_timestamp=ended))
    return known[-_REMEMBERED:]


def _state(flow: JobFlow, entries: Mapping[str, FlowJobStatus], now: datetime) -> FlowState:
    """Where the flow stands, by its jobs. Succeeded and failed are for good."""
    known = flow.status.state
    if known.phase in {FlowPhase.SUCCEED, FlowPhase.FAILED}:
        return known
    if all(entry.state == "Completed" for entry in entries.values()):
        told = "its job is completed" if len(entries) == 1 else f"all {len(entries)} jobs are completed"
        return _entered(known, FlowPhase.SUCCEED, "JobsCompleted", told, now)
    lost = [entry for entry in entries.values() if entry.state in _LOST]
    if lost and (flow.spec.failure_policy != "continue" or not _goes_on(flow, entries)):
        told = "; ".join(f"{one.name} is {one.state}: {one.message}" for one in lost)
        return _entered(known, FlowPhase.FAILED, "JobFailed", told, now)
    begun = any(entry.state not in {"", "Pending"} for entry in entries.values())
    if begun or known.phase is FlowPhase.RUNNING:
        return _entered(known, FlowPhase.RUNNING, "JobsRunning", "", now)
    return _entered(known, FlowPhase.PENDING, "JobsPending", "", now)


def _goes_on(flow: JobFlow, entries: Mapping[str, FlowJobStatus]) -> bool:
    """Whether a job runs, or can be made yet, although others are lost."""
    hopeless = _hopeless(flow, entries)
    return any(name not in hopeless and entry.state != "Completed" for name, entry in entries.items())


def _hopeless(flow: JobFlow, entries: Mapping[str, FlowJobStatus]) -> frozenset[str]:
    """The jobs that are lost, and those that wait for one of them and are not there yet."""
    gone = {name for name, entry in entries.items() if entry.state in _LOST}
    for _ in flow.spec.flows:
        more = {
            step.name
            for step in flow.spec.flows
            if step.name not in gone and not entries[step.name].state and gone.intersection(step.targets)
        }
        if not more:
            break
        gone |= more
    return frozenset(gone)


def _entered(known: FlowState, phase: FlowPhase, reason: str, message: str, now: datetime) -> FlowState:
    since = known.last_transition_time if known.phase is phase else now
    return FlowState(phase=phase, reason=reason, message=message, last_transition_time=since)


def _to_make(
    flow: JobFlow, state: FlowState, entries: dict[str, FlowJobStatus], seen: FlowObserved
) -> tuple[dict[str, Json | str], list[Knock]]:
    """For each job that is not there its manifest, or why it is not made yet; and what would have to be asked for that.

    What it waits for is written into its entry.
    """
    making: dict[str, Json | str] = {}
    knocks: list[Knock] = []
    if state.phase not in {FlowPhase.PENDING, FlowPhase.RUNNING}:
        return making, knocks
    hopeless = _hopeless(flow, entries)
    for step in flow.spec.flows:
        entry = entries[step.name]
        if entry.state:
            continue
        waiting = Waiting(flow, step, entries, seen)
        made: Json | None = None
        if step.name in hopeless:
            told = f"cannot run: {', '.join(sorted(hopeless.intersection(step.targets)))} did not come to a good end"
        elif waiting.reasons:
            told = "; ".join(waiting.reasons)
            knocks += waiting.knocks
        else:
            made, told = made_of(flow, step, seen.templates, entry.attempt)
        if made is not None and job_name(flow, step) not in seen.jobs:
            making[step.name] = made
        elif made is None:
            making[step.name] = told
            entries[step.name] = entry.model_copy(update={"message": told})
    return making, knocks


def _told(
    state: FlowState, entries: Mapping[str, FlowJobStatus], making: Mapping[str, Json | str], seen: FlowObserved
) -> FlowState:
    """How far the flow is, in a sentence; what stands in the way comes first."""
    if seen.trouble:
        return state.model_copy(update={"reason": "FailedSync", "message": seen.trouble})
    counts: dict[str, int] = {}
    for entry in entries.values():
        counts[entry.state or "waiting"] = counts.get(entry.state or "waiting", 0) + 1
    far = ", ".join(f"{number} {what.lower()}" for what, number in sorted(counts.items()))
    stuck = [f"{name}: {why}" for name, why in making.items() if isinstance(why, str) and not why.startswith("waits")]
    reason = "Stuck" if stuck else state.reason
    return state.model_copy(update={"reason": reason, "message": "; ".join([f"jobs: {far}", *stuck])})


def _status(flow: JobFlow, state: FlowState, entries: Mapping[str, FlowJobStatus]) -> JobFlowStatus:
    lists: dict[str, list[str]] = {name: [] for name in {*_LISTED.values(), "waiting_jobs"}}
    waits = [(step.name, target) for step in flow.spec.flows for target in step.targets]
    if state.phase is FlowPhase.PENDING and (way := cycle(waits)):
        told = f"its jobs wait for each other in a circle: {way}: make a new flow"
        state = state.model_copy(update={"reason": "Circle", "message": told})
    for step in flow.spec.flows:
        entry, name = entries[step.name], job_name(flow, step)
        lists[_LISTED.get(entry.state, "pending_jobs") if entry.state else "waiting_jobs"].append(name)
    return JobFlowStatus(
        state=state,
        job_status_list=[entries[step.name] for step in flow.spec.flows],
        observed_generation=flow.metadata.generation,
        **lists,
    )


def _away(
    flow: JobFlow, state: FlowState, entries: Mapping[str, FlowJobStatus], seen: FlowObserved
) -> Iterator[FlowEffect]:
    """Jobs that go: those of a past attempt, those that a failed flow ends, and all once a flow that keeps none is done."""
    for step in flow.spec.flows:
        job = seen.jobs.get(job_name(flow, step))
        if job is None or job.metadata.deletion_timestamp is not None:
            continue
        over = state.phase is FlowPhase.SUCCEED and flow.spec.job_retain_policy == "delete"
        if over or attempt_of(job) < entries[step.name].attempt:
            yield RemoveJob(job.metadata.name, job.metadata.uid)
        elif state.phase is FlowPhase.FAILED and flow.spec.failure_policy == "terminate" and _endable(job):
            yield CommandJob(job.metadata.name, job.metadata.uid, "TerminateJob", "another job of its flow has failed")


def _endable(job: BatchJob) -> bool:
    return str(job.status.state.phase or "") in _ENDABLE


def _announced(
    flow: JobFlow, state: FlowState, before: Mapping[str, FlowJobStatus], entries: Mapping[str, FlowJobStatus]
) -> Iterator[RecordEvent]:
    known = flow.status.state
    if state.phase is not known.phase:
        assert state.phase is not None
        yield RecordEvent("Warning" if state.phase is FlowPhase.FAILED else "Normal", state.phase, state.message)
    elif state.reason in {"Stuck", "Circle"} and state.message != known.message:
        yield RecordEvent("Warning", state.reason, state.message)
    for name, entry in entries.items():
        if entry.attempt > (before[name].attempt if name in before else 0):
            yield RecordEvent("Warning", "Retrying", f"{name}: {entry.message}")


def _as_json(status: JobFlowStatus) -> Json:
    """The status as it is written: what says nothing is left out."""
    return {key: value for key, value in status.write().items() if value not in ("", [], {})}
