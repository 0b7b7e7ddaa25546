"""The mean load of a node over ten minutes, from samples of ``/proc/stat`` and ``/proc/meminfo``. Pure."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import pstdev

from volcanopy.services.agent.node_report import ReportError

PERIOD = timedelta(minutes=10)
"""The period of the mean, that of the other sources of load."""
CHANGE = 5.0
"""Percentage points by which a mean must have changed to be written before it is due."""
DUE = timedelta(minutes=2)
"""The load is written at least so often: the scheduler ignores what is older than five minutes."""


@dataclass(frozen=True)
class Load:
    """How busy a node is, in percent; ``deviation`` and ``peak`` of cpu and memory are those of the samples."""

    cpu: float
    memory: float
    measured: datetime
    deviation: tuple[float, float] = (0.0, 0.0)
    peak: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Sample:
    """What the kernel has counted until now: time of all CPUs, busy and in sum, and the part of memory in use."""

    at: datetime
    busy: int
    total: int
    memory: float


def sample(stat: str, meminfo: str, at: datetime) -> Sample:
    """Read a sample. Raises ReportError."""
    fields = stat.partition("\n")[0].split()
    try:
        if fields[0] != "cpu":
            raise IndexError
        times = [int(field) for field in fields[1:9]]  # guest times are part of user and nice
        total, idle = sum(times), times[3] + (times[4] if len(times) > 4 else 0)
    except (IndexError, ValueError):
        raise ReportError("/proc/stat does not start with the line of all CPUs") from None
    amounts = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    try:
        whole, free = (int(amounts[key].split()[0]) for key in ("MemTotal", "MemAvailable"))
        used = 1.0 - free / whole
    except (KeyError, ValueError, IndexError, ZeroDivisionError):
        raise ReportError("/proc/meminfo has no MemTotal and MemAvailable") from None
    return Sample(at, total - idle, total, 100.0 * used)


class LoadWindow:
    """The samples of the last ten minutes."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def add(self, new: Sample) -> Load | None:
        """Add a sample; return the mean load, None for the first sample."""
        samples = self._samples
        if samples and new.total < samples[-1].total:  # the node has started again
            samples.clear()
        samples.append(new)
        while samples[0].at < new.at - PERIOD and len(samples) > 2:
            samples.popleft()
        passed = new.total - samples[0].total
        if not passed:
            return None
        cpu = 100.0 * (new.busy - samples[0].busy) / passed
        used = [sample.memory for sample in samples]
        busy = [_busy(old, now) for old, now in pairwise(samples) if now.total > old.total]
        return Load(
            _percent(cpu),
            round(sum(used) / len(used), 1),
            new.at,
            (_percent(pstdev(busy)), _percent(pstdev(used))),
            (_percent(max(busy)), _percent(max(used))),
        )


def _busy(old: Sample, now: Sample) -> float:
    return 100.0 * (now.busy - old.busy) / (now.total - old.total)


def _percent(value: float) -> float:
    return round(min(max(value, 0.0), 100.0), 1)


def is_due(written: Load | None, load: Load) -> bool:
    """Whether a load differs enough from the one that was written, or that one is old."""
    return (
        written is None
        or load.measured - written.measured >= DUE
        or abs(load.cpu - written.cpu) >= CHANGE
        or abs(load.memory - written.memory) >= CHANGE
    )
