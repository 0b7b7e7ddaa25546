"""Votes on the admission of jobs: thousands may wait in a queue, many of them with equal minima."""

from collections.abc import Callable

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.policy.plugin import Vote


class AdmissionVotes:
    """The votes on jobs of a queue, once for all of equal minimum until a job is admitted or a task changes."""

    def __init__(self, cluster: Cluster, vote: Callable[[QueueView, Ints | None], Vote]) -> None:
        """``vote`` is that of a queue on an (R,) minimum; it may depend on what is allocated and was admitted.

        It is asked with None for jobs that specify no minimum.
        """
        self._ledger, self._vote = cluster.ledger, vote
        self._queue = cluster.snapshot.jobs.queue
        self._known: dict[tuple[int, bytes | None], Vote] = {}
        self._changes = (0, 0)
        """The numbers of admissions and of changes of tasks for which they hold."""

    def of(self, job: JobView) -> Vote:
        """Return the vote on a job."""
        changes = (self._ledger.admissions, self._ledger.moves)
        if changes != self._changes:
            self._known.clear()
            self._changes = changes
        key = int(self._queue[job.row]), job.minimum_key
        vote = self._known.get(key)
        if vote is None:
            minimum = job.min_resources
            vote = self._known[key] = self._vote(job.queue, None if minimum is None else minimum.values)
        return vote
