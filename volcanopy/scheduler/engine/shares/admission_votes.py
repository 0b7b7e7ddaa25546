"""The votes of a policy on the admission of waiting jobs."""

from collections.abc import Callable, Hashable

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.policy.plugin import Vote


class AdmissionVotes:
    """The votes of a policy on the admission of jobs, kept by minimum: of thousands of waiting jobs many have equal minima.

    A job that a reservation keeps from starting counts against other such jobs only.
    """

    def __init__(self, cluster: Cluster, vote: Callable[[JobView, bool], Vote]) -> None:
        """``vote`` returns the vote on a job that waits for a reservation, or on another."""
        self._cluster, self._vote = cluster, vote
        self._changes = (0, 0)  # The numbers of admissions and of changes of tasks for which ``_votes`` hold.
        self._votes: dict[tuple[Hashable, bool], Vote] = {}
        self._behind: Mask | None = None  # The jobs that wait for a reservation: known from the first rejection on.

    def of(self, job: JobView, key: Hashable) -> Vote:
        """Return the vote on a job; jobs of equal ``key`` have equal votes."""
        ledger = self._cluster.reads.ledger
        changes = ledger.admissions, len(ledger.moved)
        if changes != self._changes:
            self._changes = changes
            self._votes.clear()
        if self._behind is None and self._of(job, key, True).value < 0:
            self._behind = self._cluster.queries.behind_reservations()
        return self._of(job, key, self._behind is None or bool(self._behind[job.row]))

    def _of(self, job: JobView, key: Hashable, behind: bool) -> Vote:
        if (key, behind) not in self._votes:
            self._votes[key, behind] = self._vote(job, behind)
        return self._votes[key, behind]
