"""What a job's status says: the counts of its pods, when a phase is over, and why the job stands where it stands."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from volcanopy.api.batch import BatchJob, BatchJobSpec, BatchJobStatus, JobState, Phase, TaskCounts, TaskSpec
from volcanopy.api.core import Condition as SeenCondition
from volcanopy.api.core import PodGroup
from volcanopy.api.meta import Condition
from volcanopy.api.model import Json
from volcanopy.jobcontroller.observed import Member
from volcanopy.jobcontroller.phases import FINISHED, RESTARTS

ADMITTED = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
"""Phases of a PodGroup in which its pods may be made."""


@dataclass(frozen=True)
class Counts:
    """Pods by phase; those on their way out count as terminating and as nothing else."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)
    first_failed: dict[str, Member] = field(default_factory=dict)
    """Of each task the first pod that failed, by index."""

    @property
    def started(self) -> int:
        """Pods that run or have run."""
        return self.running + self.succeeded + self.failed

    @property
    def alive(self) -> bool:
        """Whether any pod has not come to its end."""
        return bool(self.pending or self.running or self.unknown or self.terminating)


def count(members: Iterable[Member], doomed: Collection[str]) -> Counts:
    """Pods by phase. ``doomed`` are the names of pods that are about to be taken away: they count as terminating."""
    phases = {"Pending": 0, "Running": 0, "Succeeded": 0, "Failed": 0, "Unknown": 0}
    by_task: dict[str, dict[str, int]] = {}
    first_failed: dict[str, Member] = {}
    terminating = 0
    for one in members:
        if one.leaving or one.name in doomed:
            terminating += 1
            continue
        phase = one.phase if one.phase in phases else "Unknown"
        phases[phase] += 1
        of_task = by_task.setdefault(one.task, {})
        of_task[phase] = of_task.get(phase, 0) + 1
        if phase == "Failed":
            first_failed.setdefault(one.task, one)
    return Counts(
        phases["Pending"],
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
        phases["Unknown"],
        terminating,
        by_task,
        first_failed,
    )


def with_counts(status: BatchJobStatus, counts: Counts) -> BatchJobStatus:
    """The status with these counts. A finished job keeps the ends it has counted when its pods go."""
    succeeded, failed, by_task = counts.succeeded, counts.failed, counts.by_task
    if status.state.phase in FINISHED:
        succeeded, failed = max(succeeded, status.succeeded), max(failed, status.failed)
        by_task = _final(status, by_task)
    return status.model_copy(
        update={
            "pending": counts.pending,
            "running": counts.running,
            "succeeded": succeeded,
            "failed": failed,
            "unknown": counts.unknown,
            "terminating": counts.terminating,
            "task_status_count": {task: TaskCounts(phase=dict(sorted(by_task[task].items()))) for task in by_task},
        }
    )


def _final(status: BatchJobStatus, by_task: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    final: dict[str, dict[str, int]] = {task: dict(phases) for task, phases in by_task.items()}
    for task, counted in status.task_status_count.items():
        of_task = final.setdefault(task, {})
        for phase in ("Succeeded", "Failed"):
            if most := max(of_task.get(phase, 0), counted.phase.get(phase, 0)):
                of_task[phase] = most
    return {task: final[task] for task in sorted(final)}


@dataclass(frozen=True)
class Move:
    """A phase that a job goes to by itself, and why."""

    to: Phase
    reason: str
    message: str


def arrival(spec: BatchJobSpec, status: BatchJobStatus, counts: Counts) -> Move | None:
    """The phase that a job goes to because what it waited for has come; None if it has not."""
    match status.state.phase:
        case Phase.PENDING:
            return _unless_restarting(status, _started(spec, counts))
        case Phase.RUNNING:
            return _unless_restarting(status, _over(spec, counts))
        case Phase.RESTARTING:
            return _restarted(spec, status, counts)
        case Phase.ABORTING if not counts.alive:
            return Move(Phase.ABORTED, status.state.reason, status.state.message)
        case Phase.COMPLETING if not counts.alive:
            return Move(Phase.COMPLETED, status.state.reason, status.state.message)
        case Phase.TERMINATING if not counts.alive:
            return Move(Phase.TERMINATED, status.state.reason, status.state.message)
    return None


def _started(spec: BatchJobSpec, counts: Counts) -> Move | None:
    if counts.started >= spec.needed:
        return Move(Phase.RUNNING, "Started", running_message(spec, counts))
    if counts.started and counts.succeeded + counts.failed + _waiting_in_vain(spec, counts) == spec.replicas:
        return _verdict(spec, counts)
    return None


def _waiting_in_vain(spec: BatchJobSpec, counts: Counts) -> int:
    """Pods of tasks that can never start: what they wait for has come to its end, and not well enough."""

    def lost(task: TaskSpec) -> bool:
        if task.name in hopeless:
            return True
        ended = counts.by_task.get(task.name, {})
        good = ended.get("Succeeded", 0)
        return good + ended.get("Failed", 0) == task.replicas and good < task.needed

    hopeless: set[str] = set()
    waiting = [task for task in spec.tasks if task.depends_on and task.name not in counts.by_task and task.replicas]
    for _ in waiting:
        for task in waiting:
            dead = [lost(one) for name in task.depends_on.name if (one := spec.task(name))] if task.depends_on else []
            if dead and (all(dead) if task.depends_on and task.depends_on.iteration == "any" else any(dead)):
                hopeless.add(task.name)
    return sum(task.replicas for task in waiting if task.name in hopeless)


def _unless_restarting(status: BatchJobStatus, move: Move | None) -> Move | None:
    """A job is not called failed while a policy's restart waits for its time."""
    if move is not None and move.to is Phase.FAILED and any(one.action in RESTARTS for one in status.delayed):
        return None
    return move


def _over(spec: BatchJobSpec, counts: Counts) -> Move | None:
    """The end of a running job, by the first of these rules that speaks."""
    replicas, needed = spec.replicas, spec.needed
    if replicas == 0:
        return None
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return Move(Phase.COMPLETED, "Succeeded", f"{_pods(counts.succeeded)} succeeded, {spec.min_success} needed")
    if counts.succeeded + counts.failed + _waiting_in_vain(spec, counts) == replicas:
        return _verdict(spec, counts)
    if counts.pending > replicas - needed:
        ready = replicas - counts.pending
        return Move(Phase.PENDING, "TooFewPods", f"{_pods(ready)} left that run or have run, {needed} needed")
    return None


def _verdict(spec: BatchJobSpec, counts: Counts) -> Move:
    """Complete or failed, now that every pod has come to its end."""
    if spec.needed >= sum(task.needed for task in spec.tasks):
        for task in spec.tasks:
            good = counts.by_task.get(task.name, {}).get("Succeeded", 0)
            if good < task.needed:
                told = f"{_pods(good)} of task {task.name} succeeded, {task.needed} needed"
                return Move(Phase.FAILED, "TaskFailed", told + _failures(counts, task.name))
    enough = spec.min_success if spec.min_success is not None else spec.needed
    told = f"{_pods(counts.succeeded)} succeeded and {counts.failed} failed"
    if counts.succeeded < enough:
        return Move(Phase.FAILED, "TooFewSucceeded", f"{told}, {enough} had to succeed{_failures(counts)}")
    return Move(Phase.COMPLETED, "Succeeded", told if counts.failed else f"{_pods(counts.succeeded)} succeeded")


def _failures(counts: Counts, task: str = "") -> str:
    """Which pod failed first (by index), how, and how many more, of one task or of all; with what joins it on."""
    found = [one for one in counts.first_failed.values() if task in {"", one.task}]
    if not found:
        return ""
    others = (counts.by_task[task].get("Failed", 0) if task else counts.failed) - 1
    return f": {found[0].failure}" + (f", and {others} more" if others else "")


def _restarted(spec: BatchJobSpec, status: BatchJobStatus, counts: Counts) -> Move | None:
    state = status.state
    # A limit of 0 asks for no restart, as a limit of 1 does; resuming a suspended job is none.
    if status.retry_count and status.retry_count >= spec.max_retry:
        told = f"{state.message}, and maxRetry is {spec.max_retry}"
        return Move(Phase.FAILED, "RetriesExhausted", told)
    if spec.replicas - counts.terminating >= spec.needed:
        return Move(Phase.PENDING, "Restarted", state.message)
    return None


def entered(status: BatchJobStatus, move: Move, now: datetime) -> BatchJobStatus:
    """The status after the job has gone to a phase, with the condition of that phase last and alone true."""
    now = now.replace(microsecond=0)
    state = JobState(phase=move.to, reason=move.reason, message=move.message, last_transition_time=now)
    others = [_left(one, now) for one in status.conditions if one.type != move.to]
    update: dict[str, Any] = {"state": state, "conditions": [*others, _condition(state)]}
    began = status.state.last_transition_time
    if status.state.phase is Phase.RUNNING and began:
        update["running_duration"] = (status.running_duration or timedelta(0)) + max(now - began, timedelta(0))
    return status.model_copy(update=update)


def told(status: BatchJobStatus, reason: str, message: str) -> BatchJobStatus:
    """The status with another word for why the job is in its phase."""
    state = status.state.model_copy(update={"reason": reason, "message": message})
    others = [one for one in status.conditions if one.type != state.phase]
    return status.model_copy(update={"state": state, "conditions": [*others, _condition(state)]})


def _left(condition: Condition, now: datetime) -> Condition:
    if condition.status == "False":
        return condition
    return condition.model_copy(update={"status": "False", "last_transition_time": now})


def _condition(state: JobState) -> Condition:
    return Condition(
        type=state.phase or "",
        status="True",
        reason=state.reason,
        message=state.message,
        last_transition_time=state.last_transition_time,
    )


def why_waiting(job: BatchJob, group: PodGroup | None, counts: Counts) -> tuple[str, str]:
    """Why a pending job is pending, in a word and a sentence."""
    queue = job.spec.queue
    if group is None:
        return "NotAdmitted", f"waits in queue {queue} for the scheduler to admit it"
    latest = _latest(group.status.conditions)
    if latest is not None and latest.type == "Unschedulable" and latest.message:
        return latest.reason or "Unschedulable", latest.message
    stands = f"{_pods(counts.started)} of {job.spec.needed} needed run or have run"
    if group.status.phase in ADMITTED:
        return "WaitingForPods", f"admitted by queue {queue}: {stands}"
    if counts.by_task:
        # Its pods show that it was admitted: what waits is what the gang has come to need since.
        return "WaitingForPods", f"{stands}: queue {queue} has to admit the rest"
    return "NotAdmitted", f"waits in queue {queue} for the scheduler to admit it"


def _latest(conditions: Sequence[SeenCondition]) -> SeenCondition | None:
    """The condition that came to hold last; of several at once, the one that stands last."""
    holding = [(one.last_transition_time, number, one) for number, one in enumerate(conditions) if one.status == "True"]
    if not holding:
        return None
    return max(holding, key=lambda entry: (entry[0].timestamp() if entry[0] else 0.0, entry[1]))[2]


def running_message(spec: BatchJobSpec, counts: Counts) -> str:
    """How far a running job is."""
    told = f"{counts.running} of {_pods(spec.replicas)} running"
    ends = [
        f"{number} {what}" for number, what in ((counts.succeeded, "succeeded"), (counts.failed, "failed")) if number
    ]
    return ", ".join([told, *ends])


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def as_json(status: BatchJobStatus) -> Json:
    """The status as it is written: what says nothing is left out, counts are not."""
    return {key: value for key, value in status.write().items() if value not in ("", [], {}) and value is not False}
