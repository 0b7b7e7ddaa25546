"""The reasons for which jobs wait, as the actions of a session record them and the report reads them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.placement.fit_error import Why


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
        for recorded in (self.by_job, self.fit_errors, self.placed, self.order):
            recorded.pop(job, None)
