"""Outcome of a simulation: plain values that can be written to files and sent between processes."""

from dataclasses import dataclass, field
from typing import NamedTuple

from volcanopy.scheduler.engine.shares.usage_shares import UsageShare


class JobOutcome(NamedTuple):
    """What became of a job; times are seconds since the beginning, -1 for what did not happen."""

    name: str
    queue: str
    user: str
    pods: int
    cpu: float
    """Cores of all pods."""
    gpu: float
    """Cards of all pods."""
    submit: float
    start: float
    """First start."""
    end: float
    run_time: float
    """Seconds that it had to run."""
    evictions: int
    lost: float
    """Seconds of its runs that were lost by evictions."""
    bound: float
    """Seconds that it waits at most where its queue gets its share and works off its jobs in order."""
    reason: str = ""
    """Why a job that never started was still waiting at the end."""


class JobEviction(NamedTuple):
    """A job that lost pods: for another job (``preemptor``), or for no job (empty)."""

    time: float
    job: str
    preemptor: str
    pods: int
    lost: float
    """Seconds of work in cores (cards where there are any) that were lost."""


class JobRun(NamedTuple):
    """A run of a job, for the Gantt chart."""

    job: str
    queue: str
    begin: float
    end: float
    size: float


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """The cluster at one time; lists are by queue, in the main resource (cards where there are any, else cores)."""

    time: float
    cpu: float
    memory: float
    gpu: float
    """Parts of the capacity that are allocated."""
    shares: tuple[float, ...]
    fair: tuple[float, ...]
    waiting: int
    running: int
    fragmentation: float


@dataclass(frozen=True)
class Outcome:
    """Everything that is measured of one run."""

    configuration: str
    seed: int
    end: float
    """Time of the last event."""
    main: str
    """The resource of shares: ``gpu`` or ``cpu``."""
    capacity: dict[str, float]
    """Cores, bytes and cards."""
    queues: tuple[str, ...]
    jobs: tuple[JobOutcome, ...]
    evictions: tuple[JobEviction, ...] = ()
    placements: tuple[JobRun, ...] = ()
    samples: tuple[SamplePoint, ...] = ()
    utilisation: dict[str, float] = field(default_factory=dict)
    """Mean allocated part of the capacity from the first submission to the end, by resource."""
    allocated: dict[str, float] = field(default_factory=dict)
    """Allocated part of the capacity at the end, by resource."""
    shares: dict[str, float] = field(default_factory=dict)
    """Part of everything that was allocated, by queue."""
    distance: float = 0.0
    """Mean distance of the shares from the fair shares while queues compete, from 0 to 1."""
    usage: tuple[UsageShare, ...] = ()
    """Decayed usage of queues and users at the end, beside their shares."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Jobs that admission rejected, and why."""
    events: int = 0
    cycles: int = 0
    cpu_seconds: float = 0.0
    """Processor time, where the caller measures it."""
