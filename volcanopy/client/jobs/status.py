"""Phases of jobs, and the figures of a job that tables and commands show."""

import difflib
from datetime import datetime
from typing import TYPE_CHECKING

from volcanopy.api.batch_read import BatchJob, TaskSpec
from volcanopy.api.container_states import (
    AWAITS_ADMISSION,
    FAILED_SYNC,
    POD_FAILS_REPEATEDLY,
    POD_START_FAILED,
    SCALED_TO_ZERO,
)
from volcanopy.api.core import EstimatedStart, PodGroup, position_of
from volcanopy.api.times import format_time
from volcanopy.client.durations import local_time
from volcanopy.client.errors import CommandError

if TYPE_CHECKING:
    from volcanopy.whatif import expected

PHASES = (
    "Pending",
    "Running",
    "Restarting",
    "Aborting",
    "Aborted",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
"""As in the API; a test compares them, since importing the full model would delay every command."""
FINISHED = frozenset({"Completed", "Terminated", "Failed"})
"""Final phases."""
SUSPENDED = "Aborted"
_NOT_ALL_RUNS = frozenset({FAILED_SYNC, POD_FAILS_REPEATEDLY, POD_START_FAILED, SCALED_TO_ZERO})
"""Reasons of running jobs whose message is shown: not all of the job runs."""
_USUAL = frozenset({"", "Created", "WaitingForPods"})
"""Reasons of a pending job that starts soon."""


def phase_named(text: str) -> str:
    """Return the phase of that name in any case; raises CommandError for an unknown one.

    Suspended, as tables show it, is that of jobs that their spec or a Command suspends.
    """
    name = SUSPENDED.lower() if text.lower() == "suspended" else text.lower()
    phase = next((phase for phase in PHASES if phase.lower() == name), None)
    if phase is None:
        similar = difflib.get_close_matches(text.capitalize(), PHASES, n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"use one of {', '.join(PHASES)}"
        raise CommandError(f"{text!r} is not a phase of a job: {hint}", 2)
    return phase


def phase(job: BatchJob) -> str:
    """Return the phase; Pending before the job controller has set it."""
    return job.status.state.phase or "Pending"


def shown_phase(job: BatchJob) -> str:
    """Return the phase as tables show it: Suspended for a job that its spec suspends."""
    state = job.status.state
    return "Suspended" if state.phase == SUSPENDED and state.reason == "Suspended" else phase(job)


def deletion(job: BatchJob) -> str:
    """Return that a job is being deleted, with the finalizers that it waits for; empty if it is not."""
    metadata = job.metadata
    return f"being deleted: waits for finalizer {', '.join(metadata.finalizers)}" if metadata.deletion_timestamp else ""


def message(job: BatchJob) -> str:
    """Return the message of the job's state, or that the job is being deleted."""
    return deletion(job) or job.status.state.message


def reason(job: BatchJob) -> str:
    """Return the sentence why a job does not run, or not all of it; empty for jobs that run as usual or are completed."""
    state = job.status.state
    if text := deletion(job):
        return text
    if not state.phase:
        return "no status yet from the job controller"
    usual = state.phase == "Completed" or (state.phase == "Running" and state.reason not in _NOT_ALL_RUNS)
    return "" if usual else message(job)


def starts_soon(job: BatchJob) -> bool:
    """Return whether nothing is known that keeps a pending job from its start."""
    state = job.status.state
    return state.reason in _USUAL or AWAITS_ADMISSION in state.message


def estimated_start(estimate: "EstimatedStart | expected.StartEstimate | None", now: datetime | None = None) -> str:
    """Return the estimated start of a waiting job with its basis, or why it is unknown; empty if there is no estimate.

    Relative to ``now`` for people, else as the API has it.
    """
    if estimate is None:
        return ""
    if estimate.time is None:
        return f"unknown: {estimate.message}"
    if now is None:
        return f"{format_time(estimate.time)} ({estimate.basis})"
    basis = "a job runs longer than estimated" if estimate.basis == "overdue" else estimate.basis
    return f"{_relative((estimate.time - now).total_seconds())}, {local_time(estimate.time)} ({basis})"


def _relative(seconds: float) -> str:
    """Return how far away an estimated time is, no more exactly than an estimate is."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "in less than a minute" if seconds >= 0 else "later than estimated"
    if minutes < 120:
        return f"in about {minutes} min"
    return f"in about {round(minutes / 60)} h" if minutes < 48 * 60 else f"in about {round(minutes / 1440)} days"


def position(group: PodGroup) -> str:
    """Return the position in the queue of a job's pod group; ``-`` for one that does not wait."""
    explanation = group.status.explanation
    return str((explanation is not None and position_of(explanation.numbers)) or "-")


def summary(job: BatchJob) -> str:
    """Return phase and message: ``Failed: pod train-0 failed``."""
    return f"{shown_phase(job)}: {message(job)}" if message(job) else shown_phase(job)


def total(job: BatchJob) -> int:
    """Return the number of pods of all tasks."""
    return sum(task.replicas for task in job.spec.tasks)


def ready(job: BatchJob) -> int:
    """Return the number of running and succeeded pods."""
    return job.status.running + job.status.succeeded


def task_minimum(task: TaskSpec) -> int:
    """Return the number of pods of a task that must start together."""
    return task.replicas if task.min_available is None else task.min_available


def minimum(job: BatchJob) -> int:
    """Return the number of pods that must start together."""
    return job.status.min_available or job.spec.min_available or sum(map(task_minimum, job.spec.tasks))


def queue(job: BatchJob) -> str:
    """Return the name of the job's queue."""
    return job.spec.queue or "default"
