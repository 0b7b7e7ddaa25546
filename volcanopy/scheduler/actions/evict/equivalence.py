"""Jobs that may evict the same: a search or a check for any of them is valid for all."""

from collections.abc import Hashable, Iterable

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView


def equivalence(session: Session, job: JobView, shapes: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return a key that is equal for jobs for which the same evictions are possible, given how many tasks they lack.

    ``shapes`` are the cache keys of their tasks.
    """
    return (
        job.queue.row,
        None if session.limits is None else session.limits.limit_class(job.row),
        job.priority,
        job.preemptable,
        job.allocated.values.tobytes(),
        frozenset(shapes),
    )
