"""The reasons for which jobs wait, as the actions of a session record them and the report reads them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.fit_error import Why
from volcanopy.scheduler.policy.plugin import Rejection


class Recorded(NamedTuple):
    """The reason of a job: a rejection or a fit error, and how many of its tasks were placed before it."""

    rejection: Rejection | None
    fit_error: Why | None
    placed: int


@dataclass
class Rejections:
    """The first reason of each job, given by its row; a rejection takes the place of a fit error."""

    reasons: dict[int, Recorded] = field(default_factory=dict)
    notes: dict[int, list[str]] = field(default_factory=dict)
    """Sentences about what else was tried for a job and why it did not help."""
    order: dict[int, None] = field(default_factory=dict)  # The jobs in the order of their rejection.
    _computed: dict[Hashable, Why] = field(default_factory=dict)

    def rejection(self, job: int) -> Rejection | None:
        """Return the rejection of a job; None if it has no reason, or a fit error."""
        reason = self.reasons.get(job)
        return None if reason is None else reason.rejection

    def add(self, job: int, rejection: Rejection, placed: int = 0) -> None:
        """Record a rejection of a job after ``placed`` of its tasks were placed."""
        if self.rejection(job) is None:
            self.record(job, Recorded(rejection, None, placed))

    def add_fit_error(self, job: int, placed: int, key: Hashable, compute: Callable[[], Why]) -> None:
        """Record that no node takes the next task of a job; the fit error is computed once for equal keys."""
        error = self._computed.get(key)
        if error is None:
            error = self._computed[key] = compute()
        self.record(job, Recorded(None, error, placed))

    def record(self, job: int, reason: Recorded | None) -> None:
        """Record a reason in place of the present one; None: keep that."""
        if reason is not None:
            self.reasons[job] = reason
            self.order.setdefault(job)

    def note(self, job: int, sentence: str) -> None:
        """Record once that something else did not help a job."""
        notes = self.notes.setdefault(job, [])
        if sentence not in notes:
            notes.append(sentence)

    def clear(self, job: int) -> None:
        """Remove the reason of a job that is placed after all."""
        self.reasons.pop(job, None)
        self.order.pop(job, None)

    def begin_retry(self, job: int) -> Recorded | None:
        """Remove the reason of a job that is tried again, and return it if it is a rejection; its place in the order stays."""
        reason = self.reasons.pop(job, None)
        return None if reason is None or reason.rejection is None else reason

    def end_retry(self, job: int) -> None:
        """Remove a job that was placed, and has no new reason, from the order."""
        if job not in self.reasons:
            self.order.pop(job, None)

    def beside_shares(self, job: int) -> Recorded | None:
        """Return the reason of a job, unless it is a fair share or nodes that lack free resources only."""
        reason = self.reasons.get(job)
        if reason is None or (reason.rejection is not None and reason.rejection.gate == Gate.SHARE):
            return None
        return None if reason.fit_error is not None and reason.fit_error.nearest is not None else reason
