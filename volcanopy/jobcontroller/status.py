"""Status of a job: counts of its pods, phase transitions, and the reason and message of the phase."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from volcanopy.api.batch import BatchJob, BatchJobSpec, BatchJobStatus, JobState, Phase, TaskCounts, TaskSpec
from volcanopy.api.container_states import AWAITS_ADMISSION, POD_FAILS_REPEATEDLY, POD_START_FAILED, SCALED_TO_ZERO
from volcanopy.api.core import Condition as SeenCondition
from volcanopy.api.core import PodGroup
from volcanopy.api.model import Condition
from volcanopy.api.quantity import counted
from volcanopy.jobcontroller.observed import JobPod, index_text
from volcanopy.jobcontroller.phases import FINISHED, RESTARTS

ADMITTED = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
"""Phases of a PodGroup in which its pods may be created."""
USUAL_REASONS = frozenset({"NotAdmitted", "WaitingForPods", "Started", SCALED_TO_ZERO})
"""Reasons of a pending or running job that are no trouble."""
_COUNTS = frozenset(
    {"pending", "running", "succeeded", "failed", "terminating", "unknown", "task_status_count"}
    | {"resource_seconds", "usage_time", "estimated_start", "admitted_time", "state", "conditions"}
)
_PHASES = frozenset(Phase)
CANNOT_TERMINATE = "cannot terminate: "
_STUCK_CLAUSE = re.compile(rf"(?:^|; )\d+ pods? {CANNOT_TERMINATE}")
_FIRST = frozenset({"min_available", "observed_generation"})
"""What the first status of a job states as well. Not the objects of plugins: what is not recorded is not deleted."""


@dataclass(frozen=True)
class Counts:
    """Number of pods by phase; terminating pods are counted as terminating only."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)
    first_failed: dict[str, JobPod] = field(default_factory=dict)
    """First failed pod of each task, by index."""
    start_problem: str = ""
    """Why the first pod that cannot start cannot; empty if there is none."""
    repeated_failure: str = ""
    """How the first running pod fails whose container is restarted on the spot again and again; empty if there is none."""

    @property
    def started(self) -> int:
        """Number of pods that are running or finished."""
        return self.running + self.succeeded + self.failed

    @property
    def alive(self) -> bool:
        """Whether any pod is not finished."""
        return bool(self.pending or self.running or self.unknown or self.terminating)


def count(members: Iterable[JobPod], doomed: Collection[str]) -> Counts:
    """Return the number of pods by phase. ``doomed`` are the names of pods to delete, which count as terminating."""
    phases = {"Pending": 0, "Running": 0, "Succeeded": 0, "Failed": 0, "Unknown": 0}
    by_task: dict[str, dict[str, int]] = {}
    first_failed: dict[str, JobPod] = {}
    terminating, start_problem, repeated_failure = 0, "", ""
    for member in members:
        if member.leaving or member.name in doomed:
            terminating += not member.removed
            continue
        phase = member.phase if member.phase in phases else "Unknown"
        phases[phase] += 1
        of_task = by_task.setdefault(member.task, {})
        of_task[phase] = of_task.get(phase, 0) + 1
        if phase == "Failed":
            first_failed.setdefault(member.task, member)
        elif phase == "Pending" and not start_problem:
            start_problem = member.start_problem
        elif phase == "Running" and not repeated_failure:
            repeated_failure = member.repeated_failure
    return Counts(
        phases["Pending"],
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
        phases["Unknown"],
        terminating,
        by_task,
        first_failed,
        start_problem,
        repeated_failure,
    )


def completed_indexes(members: Iterable[JobPod], doomed: Collection[str]) -> dict[str, str]:
    """Return the indexes of the pods that had succeeded before they were deleted, by task. ``members`` are in order."""
    removed: dict[str, list[int]] = {}
    for member in members:
        if member.removed and member.name not in doomed:
            removed.setdefault(member.task, []).append(member.index)
    return {task: index_text(numbers) for task, numbers in removed.items()}


def with_counts(status: BatchJobStatus, counts: Counts) -> BatchJobStatus:
    """Return the status with these counts. A finished job keeps its counts when its pods are deleted."""
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
    for task, counts in status.task_status_count.items():
        of_task = final.setdefault(task, {})
        for phase in ("Succeeded", "Failed"):
            if most := max(of_task.get(phase, 0), counts.phase.get(phase, 0)):
                of_task[phase] = most
    return {task: final[task] for task in sorted(final)}


@dataclass(frozen=True)
class Move:
    """A transition to a phase that follows from the pods of a job."""

    to: Phase
    reason: str
    message: str


def next_phase(spec: BatchJobSpec, status: BatchJobStatus, counts: Counts, *, admitted: bool = True) -> Move | None:
    """Return the transition that follows from the pods of a job, if there is one.

    While the job is not ``admitted``, nothing creates the pods that it lacks: they wait as pending ones do.
    """
    match status.state.phase:
        case Phase.PENDING | Phase.RUNNING if spec.min_success is not None and counts.succeeded >= spec.min_success:
            return Move(Phase.COMPLETED, "Succeeded", f"{counts.succeeded}/{spec.min_success} required pods succeeded")
        case Phase.PENDING:
            return _unless_restarting(status, _started(spec, counts))
        case Phase.RUNNING:
            return _unless_restarting(status, _over(spec, counts, admitted))
        case Phase.RESTARTING:
            return _restarted(spec, status, counts)
        case Phase.ABORTING if not counts.alive:
            return Move(Phase.ABORTED, status.state.reason, phase_message(status))
        case Phase.COMPLETING if not counts.alive:
            return Move(Phase.COMPLETED, status.state.reason, phase_message(status))
        case Phase.TERMINATING if not counts.alive:
            return Move(Phase.TERMINATED, status.state.reason, phase_message(status))
    return None


def _started(spec: BatchJobSpec, counts: Counts) -> Move | None:
    if counts.started >= spec.needed:
        return Move(Phase.RUNNING, *running_reason(spec, counts))
    if counts.started and counts.succeeded + counts.failed + _never_started(spec, counts) == spec.replicas:
        return _final_phase(spec, counts)
    return None


def _never_started(spec: BatchJobSpec, counts: Counts) -> int:
    """Return the number of pods of tasks that can never start because tasks they depend on have failed."""

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
            dead = (
                [lost(other) for name in task.depends_on.name if (other := spec.task(name))] if task.depends_on else []
            )
            if dead and (all(dead) if task.depends_on and task.depends_on.iteration == "any" else any(dead)):
                hopeless.add(task.name)
    return sum(task.replicas for task in waiting if task.name in hopeless)


def _unless_restarting(status: BatchJobStatus, move: Move | None) -> Move | None:
    """Return the transition, unless it is a failure while a delayed restart is pending."""
    if move is not None and move.to is Phase.FAILED and any(entry.action in RESTARTS for entry in status.delayed):
        return None
    return move


def _over(spec: BatchJobSpec, counts: Counts, admitted: bool) -> Move | None:
    """Return the transition of a running job that has finished or has too few pods."""
    replicas, needed = spec.replicas, spec.needed
    if replicas == 0:
        return None
    if counts.succeeded + counts.failed + _never_started(spec, counts) == replicas:
        return _final_phase(spec, counts)
    waiting = counts.pending if admitted else replicas - counts.started - counts.unknown - counts.terminating
    if waiting > replicas - needed:
        ready = replicas - waiting
        return Move(Phase.PENDING, "TooFewPods", f"{ready}/{needed} required pods started")
    return None


def _final_phase(spec: BatchJobSpec, counts: Counts) -> Move:
    """Return the final transition of a job whose pods are all finished."""
    if spec.needed >= sum(task.needed for task in spec.tasks):
        for task in spec.tasks:
            good = counts.by_task.get(task.name, {}).get("Succeeded", 0)
            if good < task.needed:
                message = f'task "{task.name}": {good}/{task.needed} required pods succeeded'
                return Move(Phase.FAILED, "TaskFailed", message + _failures(counts, task.name))
    enough = spec.min_success if spec.min_success is not None else spec.needed
    if counts.succeeded < enough:
        message = f"{counts.succeeded}/{enough} required pods succeeded, {counts.failed} failed{_failures(counts)}"
        return Move(Phase.FAILED, "TooFewSucceeded", message)
    failed = f", {counts.failed} failed" if counts.failed else ""
    return Move(Phase.COMPLETED, "Succeeded", f"{counted(counts.succeeded, 'pod')} succeeded{failed}")


def _failures(counts: Counts, task: str = "") -> str:
    """Return the first failed pod and the number of further failures, of one task or all, as the end of a message."""
    failed = [member for member in counts.first_failed.values() if task in {"", member.task}]
    if not failed:
        return ""
    others = (counts.by_task[task].get("Failed", 0) if task else counts.failed) - 1
    return f": {failed[0].failure}" + (f", and {others} more" if others else "")


def _restarted(spec: BatchJobSpec, status: BatchJobStatus, counts: Counts) -> Move | None:
    cause = phase_message(status)
    # A limit of 0 means no restart, like a limit of 1; resuming a suspended job is not a restart.
    if status.retry_count and status.retry_count >= spec.max_retry:
        message = f"{cause}: maxRetry reached ({status.retry_count}/{spec.max_retry})"
        return Move(Phase.FAILED, "RetriesExhausted", message)
    if spec.replaces_terminating or spec.replicas - counts.terminating >= spec.needed:
        return Move(Phase.PENDING, "Restarted", cause)
    return None


def phase_message(status: BatchJobStatus) -> str:
    """Return the message of the phase without the clause about pods that cannot terminate.

    It is cut off and not stored twice: the conditions of Volcano's API have no messages.
    """
    return _STUCK_CLAUSE.split(status.state.message, maxsplit=1)[0]


def entered(status: BatchJobStatus, move: Move, now: datetime) -> BatchJobStatus:
    """Return the status after a transition; of the phases' conditions only that of the new phase is True."""
    now = now.replace(microsecond=0)
    state = JobState(phase=move.to, reason=move.reason, message=move.message, last_transition_time=now)
    others = [_left(condition, now) for condition in status.conditions if condition.type != move.to]
    update: dict[str, Any] = {"state": state, "conditions": [*others, _condition(state)]}
    began = status.state.last_transition_time
    if status.state.phase is Phase.RUNNING and began:
        update["running_duration"] = (status.running_duration or timedelta(0)) + max(now - began, timedelta(0))
    if move.to is Phase.RUNNING and status.start_time is None:
        update["start_time"] = now
    return status.model_copy(update=update)


def with_reason(status: BatchJobStatus, reason: str, message: str) -> BatchJobStatus:
    """Return the status with another reason and message of its phase."""
    state = JobState(
        phase=status.state.phase, reason=reason, message=message, last_transition_time=status.state.last_transition_time
    )
    others = [condition for condition in status.conditions if condition.type != state.phase]
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


def is_minor(before: BatchJobStatus, after: BatchJobStatus) -> bool:
    """Whether a status differs in counts and messages only, or is the first one of a job that waits as usual."""
    first = before.state.phase is None
    if after.state.phase is not (Phase.PENDING if first else before.state.phase):
        return False
    if after.state.reason not in USUAL_REASONS and (first or after.state.reason != before.state.reason):
        return False
    same = type(after).model_fields.keys() - _COUNTS - (_FIRST if first else frozenset())
    return _of_other_types(before) == _of_other_types(after) and all(
        getattr(before, name) == getattr(after, name) for name in same
    )


def _of_other_types(status: BatchJobStatus) -> set[str]:
    """Return the types of the conditions other than that of the phase."""
    return {condition.type for condition in status.conditions} - _PHASES


def pending_reason(job: BatchJob, group: PodGroup | None, counts: Counts) -> tuple[str, str]:
    """Return the reason and message of a pending job."""
    queue = job.spec.queue
    if group is None:
        return "NotAdmitted", f'{AWAITS_ADMISSION} "{queue}"'
    latest = _latest(group.status.conditions)
    if latest is not None and latest.type == "Unschedulable" and latest.message:
        return latest.reason or "Unschedulable", latest.message
    started = f"{counts.started}/{job.spec.needed} required pods started"
    if counts.start_problem:
        return POD_START_FAILED, f"{started}: {counts.start_problem}"
    if counts.repeated_failure:
        return POD_FAILS_REPEATEDLY, f"{started}: {counts.repeated_failure}"
    if group.status.phase in ADMITTED:
        return "WaitingForPods", f'admitted to queue "{queue}": {started}'
    if counts.started:
        # Its pods show that it was admitted before: more pods have become required since.
        return "WaitingForPods", f'{started}: {AWAITS_ADMISSION} "{queue}"'
    return "NotAdmitted", f'{AWAITS_ADMISSION} "{queue}"'


def _latest(conditions: Sequence[SeenCondition]) -> SeenCondition | None:
    """Return the latest condition with status True; of several at the same time the last condition."""
    holding = [
        (condition.last_transition_time, number, condition)
        for number, condition in enumerate(conditions)
        if condition.status == "True"
    ]
    if not holding:
        return None
    return max(holding, key=lambda entry: (entry[0].timestamp() if entry[0] else 0.0, entry[1]))[2]


def running_message(spec: BatchJobSpec, counts: Counts) -> str:
    """Return the message of a running job."""
    ended = ((counts.succeeded, "succeeded"), (counts.failed, "failed"))
    texts = [f"{number} {phase}" for number, phase in ended if number]
    return ", ".join([f"{counts.running}/{spec.replicas} pods running", *texts])


def running_reason(spec: BatchJobSpec, counts: Counts) -> tuple[str, str]:
    """Return the reason and message of a running job."""
    if spec.replicas == 0:
        return SCALED_TO_ZERO, "no pods: every task has 0 replicas; the job continues when a task is scaled up"
    message = running_message(spec, counts)
    if counts.start_problem:
        return POD_START_FAILED, f"{message}, {counts.start_problem}"
    if counts.repeated_failure:
        return POD_FAILS_REPEATEDLY, f"{message}, {counts.repeated_failure}"
    return "Started", message
