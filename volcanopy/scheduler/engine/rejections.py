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
    """The first reason recorded for each job, given by its row, is kept."""

    by_job: dict[int, Rejection] = field(default_factory=dict)
    """Rejections by plugins and limits."""
    fit_errors: dict[int, tuple[Why, int]] = field(default_factory=dict)
    """For jobs that no node takes: the fit error, and how many of their tasks were placed before it."""
    placed: dict[int, int] = field(default_factory=dict)
    """For jobs in ``by_job``: how many of their tasks were placed before the rejection."""
    notes: dict[int, list[str]] = field(default_factory=dict)
    """Sentences about what else was tried for a job and why it did not help."""
    order: dict[int, None] = field(default_factory=dict)
    """The jobs in the order of their rejection."""
    _computed: dict[Hashable, Why] = field(default_factory=dict)

    def add(self, job: int, rejection: Rejection, placed: int = 0) -> None:
        """Record a rejection of a job after ``placed`` of its tasks were placed."""
        if job not in self.by_job:
            self.by_job[job] = rejection
            self.placed[job] = placed
            self.order[job] = None

    def add_fit_error(self, job: int, placed: int, key: Hashable, compute: Callable[[], Why]) -> None:
        """Record that no node takes the next task of a job; the fit error is computed once for equal keys."""
        error = self._computed.get(key)
        if error is None:
            error = self._computed[key] = compute()
        self.fit_errors[job] = (error, placed)
        self.order[job] = None

    def note(self, job: int, sentence: str) -> None:
        """Record once that something else did not help a job."""
        notes = self.notes.setdefault(job, [])
        if sentence not in notes:
            notes.append(sentence)

    def clear(self, job: int) -> None:
        """Remove the reason of a job that is placed after all."""
        self.clear_reason(job)
        self.order.pop(job, None)

    def begin_retry(self, job: int) -> Recorded | None:
        """Remove the rejection of a job that is tried again, and return it; its place in the order stays."""
        rejection, placed = self.by_job.get(job), self.placed.get(job, 0)
        self.clear_reason(job)
        return None if rejection is None else Recorded(rejection, None, placed)

    def end_retry(self, job: int) -> None:
        """Remove a job that was placed, and has no new reason, from the order."""
        if job not in self.by_job and job not in self.fit_errors:
            self.order.pop(job, None)

    def beside_shares(self, job: int) -> Recorded | None:
        """Return the reason of a job, unless it is a fair share or nodes that lack free resources only."""
        rejection = self.by_job.get(job)
        if rejection is not None:
            return None if rejection.gate == Gate.SHARE else Recorded(rejection, None, self.placed.get(job, 0))
        fit_error, placed = self.fit_errors.get(job, (None, 0))
        return None if fit_error is None or fit_error.nearest is not None else Recorded(None, fit_error, placed)

    def restore(self, job: int, reason: Recorded | None) -> None:
        """Record a reason in place of the present one; None: keep that."""
        if reason is None:
            return
        self.clear_reason(job)
        if reason.rejection is not None:
            self.by_job[job], self.placed[job] = reason.rejection, reason.placed
        if reason.fit_error is not None:
            self.fit_errors[job] = (reason.fit_error, reason.placed)
        self.order.setdefault(job)

    def clear_reason(self, job: int) -> None:
        """Remove the reason of a job, which keeps its place in the order."""
        for recorded in (self.by_job, self.fit_errors, self.placed):
            recorded.pop(job, None)
