"""The pause before a restart by a policy: none before the first, then exponential, kept in the status of the job.

A job that fails at once and restarts at once would keep the API server and the scheduler busy for as long as ``maxRetry`` lets
it. The n-th consecutive restart waits ``2 ** (n - 2)`` seconds, five minutes at most. A restart after ten minutes or more
is the first one again. Restarts that are decided during a pause end with it. What a user requests ends it.
"""

from datetime import datetime, timedelta

from volcanopy.api.batch import BatchJobStatus

LONGEST = timedelta(minutes=5)
QUICK = timedelta(minutes=10)
"""What has run for this long did not fail because of the restart."""


def with_pause(status: BatchJobStatus, ran: timedelta, now: datetime) -> BatchJobStatus:
    """Return the status with the pause before a restart of what ``ran`` for so long."""
    if is_pausing(status, now):
        return status
    number = 1 if ran >= QUICK else status.quick_restarts + 1
    pause = min(timedelta(seconds=2 ** (number - 2)), LONGEST) if 2 <= number < 32 else LONGEST * (number >= 32)
    until = (now + pause).replace(microsecond=0) if pause else None
    return status.model_copy(update={"quick_restarts": number, "restart_at": until})


def without_pause(status: BatchJobStatus) -> BatchJobStatus:
    """Return the status without a pause."""
    return status.model_copy(update={"restart_at": None})


def is_pausing(status: BatchJobStatus, now: datetime) -> bool:
    """Whether no pods are created because of the pause. A time that is later than any pause is that of another clock."""
    return status.restart_at is not None and now < status.restart_at <= now + LONGEST
