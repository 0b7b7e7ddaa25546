"""drf: dominant resource fairness between jobs."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.plugin import NoArguments, Plugin
from volcanopy.scheduler.resources import Resources
from volcanopy.scheduler.views import JobView, TaskView

_EQUAL = 1e-6
"""Shares nearer than this count as equal when victims are chosen (Volcano's figure)."""


class Drf(Plugin[NoArguments]):
    """The job that holds the smallest dominant share of the cluster comes first."""

    name: ClassVar[str] = "drf"

    def open(self) -> None:
        """Note what shares are of."""
        self._total = self.cluster.total

    def job_order(self, job: JobView) -> float:
        """Smaller share first."""
        return job.allocated.share_of(self._total)

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of jobs whose share, without the task, is still no smaller than the preemptor's with its own."""
        own = preemptor.job
        if own is None:
            return []
        share = (own.allocated + preemptor.request).share_of(self._total)
        left: dict[int, Resources] = {}
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None:
                continue
            rest = left.get(job.row, job.allocated) - candidate.request
            left[job.row] = rest
            other = rest.share_of(self._total)
            if share < other or abs(share - other) <= _EQUAL:
                victims.append(candidate)
        return victims
