"""The deadline of a job: ``activeDeadlineSeconds`` after it first ran its minimum of pods.

As for a Job of Kubernetes, restarts and times without enough pods count, and resuming a suspended job starts again. There the
time begins with the job itself, here it begins with the gang: waiting in a queue does not use it up.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from volcanopy.api.batch import BatchJob, BatchJobStatus, Phase
from volcanopy.api.model import Condition
from volcanopy.api.times import format_time
from volcanopy.jobcontroller.phases import LIVE
from volcanopy.jobcontroller.status import Move

APPROACHING = "DeadlineApproaching"
"""The condition and the event some time before the deadline."""
EXCEEDED = "DeadlineExceeded"
_NOTICE = timedelta(minutes=5)
"""The longest time between the event and the deadline."""


def deadline(job: BatchJob, status: BatchJobStatus) -> datetime | None:
    """Return when a job that has started and not ended must have ended; None without a deadline."""
    seconds, start = job.spec.active_deadline_seconds, status.start_time
    if seconds is None or start is None or status.state.phase not in LIVE:
        return None
    return start + timedelta(seconds=seconds)


def exceeded(job: BatchJob, status: BatchJobStatus, now: datetime) -> Move | None:
    """Return the failure of a job whose deadline has passed."""
    end = deadline(job, status)
    if end is None or now < end:
        return None
    seconds, start = job.spec.active_deadline_seconds, format_time(status.start_time) if status.start_time else ""
    return Move(Phase.FAILED, EXCEEDED, f"activeDeadlineSeconds exceeded: {seconds} s since the start at {start}")


def announcement(job: BatchJob, status: BatchJobStatus) -> datetime | None:
    """Return when the approaching deadline is announced: a tenth of the time before, at most five minutes."""
    end, seconds = deadline(job, status), job.spec.active_deadline_seconds
    return None if end is None or seconds is None else end - min(timedelta(seconds=seconds) / 10, _NOTICE)


def next_time(job: BatchJob, status: BatchJobStatus, now: datetime) -> datetime | None:
    """Return when the deadline is announced or has passed, whichever is next; None without a deadline."""
    time = announcement(job, status)
    return time if time is not None and now < time else deadline(job, status)


def announced(job: BatchJob, status: BatchJobStatus, now: datetime) -> BatchJobStatus:
    """Return the status with the condition that the deadline approaches while it does."""
    time, end = announcement(job, status), deadline(job, status)
    conditions = [condition for condition in status.conditions if condition.type != APPROACHING]
    if time is not None and end is not None and now >= time:
        message = f"the job fails at {format_time(end)}: activeDeadlineSeconds {job.spec.active_deadline_seconds}"
        condition = Condition(
            type=APPROACHING,
            status="True",
            reason="ActiveDeadlineSeconds",
            message=message,
            last_transition_time=time.replace(microsecond=0),
        )
        conditions.append(condition)
    return status.model_copy(update={"conditions": conditions})


def announcements(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[str]:
    """Yield the message that the deadline approaches, once."""
    if not any(condition.type == APPROACHING for condition in before.conditions):
        yield from (condition.message for condition in after.conditions if condition.type == APPROACHING)


def without_start(status: BatchJobStatus) -> BatchJobStatus:
    """Return the status of a resumed job: its time starts again with it."""
    return status.model_copy(update={"start_time": None})
