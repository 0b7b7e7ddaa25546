"""Jobs of a workload: when they are submitted, what they request, how long they run.

Times are seconds since the beginning of the simulation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from volcanopy.api import core, names, quantity
from volcanopy.jobcontroller.learnt_run_times import Key, LearntRunTimes, key_of

ESTIMATES = ("none", "exact", "users", "learnt")
"""Which run times the scheduler is given: none, the actual ones, those of the users, or learnt ones where users give none."""


class WorkloadError(ValueError):
    """What is wrong with a workload or the description of a cluster, in one sentence."""


@dataclass(frozen=True, slots=True)
class JobAlternative:
    """One of the alternatives of a job: what each pod requests with it, and how long the job runs then."""

    name: str
    requests: Mapping[str, str]
    run_time: float
    estimate: float = 0.0
    """Run time that the user expects, 0 for none."""
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of equal pods. It ends when its minimum has run for ``run_time`` without interruption."""

    name: str
    submit: float
    run_time: float
    """Infinite for a job that does not end."""
    pods: int = 1
    requests: Mapping[str, str] = field(default_factory=lambda: {"cpu": "1"})
    """Of each pod, as Kubernetes quantities."""
    queue: str = names.DEFAULT_QUEUE
    user: str = ""
    priority: int = 0
    minimum: int = 0
    """Pods with which it starts; 0 for all of them."""
    walltime: float = 0.0
    """Longest run time that it declares: it is ended then. 0 for none."""
    estimate: float = 0.0
    """Run time that its user expects, 0 for none."""
    preemptable: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: core.Affinity | None = None
    topology: core.NetworkTopology | None = None
    """Where its pods run together."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the job."""
    namespace: str = "default"
    alternatives: tuple[JobAlternative, ...] = ()
    """If there are any, requests, run time, estimate and node selector are those of the selected one."""
    alternative: str = ""
    """The selected one."""

    def with_alternative(self, name: str) -> "Job":
        """Return the job with an alternative selected."""
        chosen = next(each for each in self.alternatives if each.name == name)
        return replace(
            self,
            requests=chosen.requests,
            run_time=chosen.run_time,
            estimate=chosen.estimate,
            node_selector=chosen.node_selector,
            alternative=name,
        )

    @property
    def least(self) -> int:
        """Pods with which it starts."""
        return self.minimum or self.pods

    @property
    def ends_after(self) -> float:
        """Seconds that it runs: its run time, and at most its walltime."""
        return min(self.run_time, self.walltime) if self.walltime else self.run_time


def windowed(jobs: Iterable[Job], first: float, last: float) -> list[Job]:
    """Return the jobs that are submitted from ``first`` up to ``last``, as if ``first`` were the beginning."""
    return [replace(job, submit=job.submit - first) for job in jobs if first <= job.submit < last]


def scaled(jobs: Iterable[Job], factor: float) -> list[Job]:
    """Return the jobs with the times between submissions divided by a factor: 1.2 is a fifth more load."""
    return [replace(job, submit=job.submit / factor) for job in jobs]


def load_of(jobs: Sequence[Job], capacity: Mapping[str, int]) -> float:
    """Return the load: work by capacity between first and last submission, of the resource where that is most."""
    ending = [job for job in jobs if math.isfinite(job.run_time)]
    span = max((job.submit for job in jobs), default=0.0) - min((job.submit for job in jobs), default=0.0)
    if not ending or span <= 0:
        return 0.0
    work: dict[str, float] = {}
    for job in ending:
        for name, text in job.requests.items():
            work[name] = work.get(name, 0.0) + quantity.amount(name, text) * job.pods * job.ends_after
    return max((work.get(name, 0.0) / (units * span) for name, units in capacity.items() if units), default=0.0)


class Estimates:
    """The run times that the scheduler is given."""

    def __init__(self, kind: str) -> None:
        """``kind`` is one of :data:`ESTIMATES`. Raises WorkloadError."""
        if kind not in ESTIMATES:
            raise WorkloadError(f"estimates must be one of {', '.join(ESTIMATES)}, not {kind!r}")
        self.kind = kind
        self._learnt = LearntRunTimes()

    def annotations(self, job: Job) -> dict[str, str]:
        """Return the annotations of the job's PodGroup."""
        times: dict[str, float] = {}
        if self.kind == "exact" and math.isfinite(job.ends_after):
            times[names.RUNNING_ESTIMATE] = job.ends_after
        if self.kind in {"users", "learnt"}:
            times[names.WALLTIME] = job.walltime
        if self.kind == "users":
            times[names.RUNNING_ESTIMATE] = job.estimate
        if self.kind in {"users", "learnt"} and not job.alternatives:
            key = _key(job)
            known = self._learnt.estimate(key) or (None if job.walltime else self._learnt.of_others(key))
            times[names.LEARNT_ESTIMATE] = known.total_seconds() if known is not None else 0.0
        return {name: _text(time) for name, time in times.items() if time > 0}

    def of_alternatives(self, job: Job) -> dict[str, str]:
        """Return the estimates of the alternatives of a job, by name, as far as the scheduler is given any."""
        times: dict[str, float] = {}
        for each in job.alternatives:
            learnt = self._learnt.estimate(_key(job.with_alternative(each.name))) if self.kind == "learnt" else None
            known = {"exact": each.run_time, "users": each.estimate}.get(self.kind, 0.0)
            times[each.name] = learnt.total_seconds() if learnt is not None else known if math.isfinite(known) else 0.0
        return {name: _text(time) for name, time in times.items() if time > 0}

    def learn(self, job: Job) -> None:
        """Note the run time of a job that has ended."""
        if self.kind in {"users", "learnt"}:
            self._learnt.learn(_key(job), timedelta(seconds=job.ends_after))


def _key(job: Job) -> Key:
    return key_of(job.queue, job.user, job.name, job.alternative)


def _text(seconds: float) -> str:
    return f"{max(math.ceil(seconds), 1)}s"
