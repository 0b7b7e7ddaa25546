"""Expected run times of jobs: declared limits, declared estimates and learnt ones, from the annotations of PodGroups.

Only a limit is a bound. Of several, the estimate that the user declares precedes the learnt one, and neither exceeds
the limit. **Overdue**: the estimate of a job that runs longer doubles until it is longer than the job has run.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from volcanopy.api import core, names
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats


class Basis(StrEnum):
    """What an expected end follows from."""

    WALLTIME = "walltime"
    ESTIMATE = "estimate"
    LEARNT = "learnt"
    OVERDUE = "overdue"
    """An estimate, declared or learnt, that the job has exceeded already."""


@dataclass(frozen=True)
class RunTime:
    """Expected run time of a job in seconds; 0 where it is not known."""

    walltime: float = 0.0
    """The longest that it runs."""
    estimate: float = 0.0
    """How long it is expected to run."""
    learnt: bool = False
    """Whether the estimate was learnt from other jobs."""
    past: float = 0.0
    """What was learnt from other jobs, whatever the user declares."""

    def expected(self, elapsed: float = 0.0) -> tuple[float, Basis] | None:
        """Return the expected run time of a job that has run for ``elapsed`` seconds, and its basis; None if unknown."""
        if self.estimate:
            total = float(extended(np.array([self.estimate]), np.array([elapsed]))[0])
            if not self.walltime or total < self.walltime:
                if total > self.estimate:
                    return total, Basis.OVERDUE
                return total, Basis.LEARNT if self.learnt else Basis.ESTIMATE
        return (self.walltime, Basis.WALLTIME) if self.walltime else None


def run_time(group: core.PodGroup) -> RunTime:
    """Return the run time in the annotations of a PodGroup, and of its selected alternative."""
    walltime, declared, learnt = (
        _seconds(group.metadata.annotations.get(key))
        for key in (names.WALLTIME, names.RUNNING_ESTIMATE, names.LEARNT_ESTIMATE)
    )
    selected = core.selected_alternative(group)
    if selected is not None and selected.running_estimate:
        declared = _seconds(selected.running_estimate)
    return RunTime(walltime, declared or learnt, learnt=not declared and bool(learnt), past=learnt)


def _seconds(text: str | None) -> float:
    duration = pod_fields.duration(text) if text else None
    return duration.total_seconds() if duration is not None else 0.0


def extended(estimates: Floats, elapsed: Floats) -> Floats:
    """(N,): estimates greater than 0, doubled until they exceed the time that has elapsed."""
    ratio = np.maximum(elapsed, 0.0) / estimates
    doublings = np.where(ratio >= 1.0, np.floor(np.log2(np.maximum(ratio, 1.0))) + 1.0, 0.0)
    return np.asarray(estimates * np.exp2(doublings), dtype=np.float64)


def shortest(first: Floats, second: Floats) -> Floats:
    """(N,): the shorter of two limits, of which 0 is none."""
    return np.where((first > 0) & (second > 0), np.minimum(first, second), np.maximum(first, second))


def expected_or(assumed: float, walltime: Floats, estimate: Floats) -> Floats:
    """(N,): the run times of jobs in seconds by their limits and estimates, of which 0 is none: else the assumed time."""
    known = shortest(walltime, estimate)
    return np.where(known > 0, known, assumed)


def likely(estimates: Floats, assumed: float, elapsed: Floats) -> Floats:
    """(N,): the likely run times of pods: the estimates, extended, and where there are none (0) the assumed time.

    A pod that has run longer than assumed is assumed to run as long again.
    """
    known = np.flatnonzero(estimates > 0)
    times = np.where(elapsed < assumed, assumed, elapsed + np.maximum(elapsed, 1.0))
    times[known] = extended(estimates[known], elapsed[known])
    return times
