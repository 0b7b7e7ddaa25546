"""Workloads of long runs: streams of jobs that keep a queue busy, and single jobs that are watched."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from random import Random

from volcanopy.api import core, names, quantity

SMALL = (1, 1, 2, 4)
"""Pods of a job of the usual mix."""
MIXED = ("500m", "1", "2")
"""Cpus of a pod of the usual mix."""


@dataclass(frozen=True)
class Stream:
    """Jobs of one queue that arrive as others start, so that some always wait.

    Sizes and run times are drawn from the choices; the jobs of a stream are the same whatever the scheduler decides.
    """

    queue: str
    pods: Sequence[int] = SMALL
    cpu: Sequence[str] = MIXED
    minutes: tuple[int, int] = (5, 20)
    first: int = 0
    """The cycle of the first arrivals."""
    backlog: float = 0.4
    """Cpus of its waiting jobs, as a part of those of the cluster."""
    minimum: int | None = None
    """The least pods with which a job starts; all of them if not given."""
    user: str = ""
    priority: int = 0
    declared: bool = False
    """Whether the pods declare their longest run time."""


@dataclass(frozen=True)
class Single:
    """A job that is submitted in one cycle."""

    name: str
    queue: str
    cycle: int
    pods: int
    cpu: str
    minutes: int = 30
    priority: int = 0
    declared: bool = False


@dataclass(eq=False)
class Job:
    """A job with its objects and its history."""

    name: str
    group: core.PodGroup
    pods: dict[str, core.Pod]
    cpu: int
    """Milli-cpus of a pod."""
    minutes: int
    submitted: int
    priority: int
    stream: Stream | None
    admitted: bool = False
    created: bool = False
    """Whether its pods exist."""
    bound: dict[str, int] = field(default_factory=dict)
    """The cycle in which each running pod was bound."""
    started: int | None = None
    """The cycle since which its minimum runs."""
    first_started: int | None = None

    @cached_property
    def queue(self) -> str:
        """Its queue."""
        return self.group.spec.queue

    @property
    def requested(self) -> int:
        """Milli-cpus of all pods."""
        return self.cpu * len(self.pods)

    @property
    def work(self) -> int:
        """Milli-cpu-minutes of its whole run."""
        return self.requested * self.minutes

    @cached_property
    def claimant(self) -> str:
        """Whose share it uses: its queue or, of a fair queue, ``queue/user``."""
        return f"{self.queue}/{self.stream.user}" if self.stream is not None and self.stream.user else self.queue

    @property
    def runs(self) -> bool:
        """Whether its minimum runs."""
        return len(self.bound) >= self.group.spec.min_member


def class_name(priority: int) -> str:
    """Return the name of the PriorityClass of a priority."""
    return f"priority-{priority}"


def drawn(stream: Stream, number: int, dice: Random, cycle: int, now: datetime) -> Job:
    """Return the next job of a stream."""
    user = f"{stream.user}-" if stream.user else ""
    single = Single(
        name=f"{stream.queue}-{user}{number}",
        queue=stream.queue,
        cycle=cycle,
        pods=dice.choice(stream.pods),
        cpu=dice.choice(stream.cpu),
        minutes=dice.randint(*stream.minutes),
        priority=stream.priority,
        declared=stream.declared,
    )
    return job(single, now, stream)


def job(single: Single, now: datetime, stream: Stream | None = None) -> Job:
    """Return a job in phase Pending whose pods do not exist yet."""
    user = stream.user if stream is not None else ""
    least = min(stream.minimum, single.pods) if stream is not None and stream.minimum else single.pods
    milli = quantity.amount("cpu", single.cpu)
    group = core.PodGroup(
        metadata=core.Meta(
            name=single.name,
            namespace="default",
            uid=single.name,
            creation_timestamp=now,
            annotations={names.SUBMITTED_BY: user, names.SUBMITTER_GROUPS: "[]"} if user else {},
        ),
        spec=core.PodGroupSpec(
            min_member=least,
            queue=single.queue,
            priority_class_name=class_name(single.priority) if single.priority else "",
            min_resources={"cpu": f"{milli * least}m"},
        ),
        status=core.PodGroupStatus(phase="Pending"),
    )
    annotations = {"scheduling.k8s.io/group-name": single.name}
    annotations |= {names.MAX_RUNTIME: f"{single.minutes * 60}s"} if single.declared else {}
    container = core.Container(resources=core.ResourceRequirements(requests={"cpu": single.cpu}))
    spec = core.PodSpec(scheduler_name="volcanopy", containers=(container,), priority=single.priority or None)
    pods = {}
    for number in range(single.pods):
        name = f"{single.name}-{number}"
        meta = core.Meta(name=name, namespace="default", uid=name, creation_timestamp=now, annotations=annotations)
        pods[meta.key] = core.Pod(metadata=meta, spec=spec)
    return Job(single.name, group, pods, milli, single.minutes, single.cycle, single.priority, stream)
