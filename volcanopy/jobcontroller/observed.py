"""Observed objects of a job: its pods, its PodGroup and its Commands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, Restart
from volcanopy.api.bindings import Binding, binding_of
from volcanopy.api.core import Meta, Pod, PodGroup
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import ObjectMeta

_ENDED = frozenset({"Succeeded", "Failed"})


class Member:
    """A pod of a job: which one of which task, made at which version and retry of the job.

    ``phase`` is the pod's phase, ``leaving`` whether it is being deleted (by whomever), ``ended`` whether it has run to
    its end, well or not. They are read once, because large jobs use them very often.
    """

    __slots__ = ("ended", "index", "leaving", "name", "partition", "phase", "pod", "retry", "task", "version")

    def __init__(self, pod: Pod, task: str, index: int, version: int, retry: int, partition: str) -> None:
        self.partition = partition
        """The partition that the pod is in; empty where its task has none."""
        self.pod, self.task, self.index, self.version, self.retry = pod, task, index, version, retry
        self.name = pod.metadata.name
        self.phase = pod.status.phase or "Pending"
        self.leaving = pod.metadata.deletion_timestamp is not None
        self.ended = self.phase in _ENDED

    @property
    def ready(self) -> bool:
        """Whether another task may rely on it: it has succeeded, or runs with every container ready."""
        if self.phase == "Succeeded":
            return True
        statuses = self.pod.status.container_statuses
        return self.phase == "Running" and all(status.ready for status in statuses)

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """The exit codes of its containers that failed, each once, in the order of the containers."""
        status = self.pod.status
        ends = (
            container.state.terminated for container in (*status.init_container_statuses, *status.container_statuses)
        )
        return tuple(dict.fromkeys(end.exit_code for end in ends if end is not None and end.exit_code))

    @property
    def failure(self) -> str:
        """That it failed and how, as a sentence."""
        codes = ", ".join(map(str, self.exit_codes))
        why = self.pod.status.reason or self.pod.status.message
        how = f" with exit code {codes}" if codes else f": {why}" if why else ""
        return f"pod {self.name} failed{how}"

    @property
    def container_restarts(self) -> int:
        """How often its containers have been restarted on the spot."""
        status = self.pod.status
        return sum(
            container.restart_count for container in (*status.init_container_statuses, *status.container_statuses)
        )

    def replaced_by(self, restart: Restart) -> bool:
        """Whether this pod is among those that a restart replaces."""
        return (
            self.retry < restart.before
            and restart.task in {"", self.task}
            and restart.partition in {"", self.partition}
            and restart.pod in {"", self.name}
        )


@dataclass(frozen=True)
class Disruption:
    """Pods of a job that were evicted together: when, by what, how many."""

    time: datetime
    by: str
    pods: int


def disruption(pod: Pod) -> tuple[datetime, str] | None:
    """When a pod was evicted and by what, from its condition ``DisruptionTarget``; None if it was not."""
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            time = condition.last_transition_time or pod.metadata.deletion_timestamp
            if time is not None:
                time = time if time.tzinfo else time.replace(tzinfo=UTC)
                return time.replace(microsecond=0), (condition.message or condition.reason)[:1024]
    return None


@dataclass(frozen=True)
class Observed:
    """What exists of a job.

    ``applied`` are the digests of the objects that were applied for it; ``trouble`` is the last error of the API server, empty
    after success.
    """

    pods: tuple[Pod, ...] = ()
    pod_group: PodGroup | None = None
    commands: tuple[Command, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    applied: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    disruptions: tuple[Disruption, ...] = ()
    """The evictions of its pods, also of pods that are gone."""
    learnt: timedelta | None = None
    """The run time learnt from earlier jobs of the same name."""

    def members(self, job: BatchJob) -> tuple[Member, ...]:
        """The pods that the job controls, by task and index."""
        order = {task.name: number for number, task in enumerate(job.spec.tasks)}
        uid = job.metadata.uid
        members = [
            member for pod in self.pods if _controls(uid, pod) and (member := _member(pod, job.binding)) is not None
        ]
        return tuple(sorted(members, key=lambda pod: (order.get(pod.task, len(order)), pod.task, pod.index, pod.name)))


def _controls(uid: str, pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == uid


def _member(pod: Pod, binding: Binding) -> Member | None:
    notes, key_of = pod.metadata.annotations, binding.key
    try:
        return Member(
            pod,
            notes[key_of(names.TASK_SPEC)],
            int(notes[key_of(names.TASK_INDEX)]),
            int(notes[key_of(names.JOB_VERSION)]),
            int(notes.get(key_of(names.JOB_RETRY_COUNT), "0")),
            pod.metadata.labels.get(key_of(names.PARTITION_ID), ""),
        )
    except (KeyError, ValueError):
        return None


def is_of_version(group: PodGroup, version: int) -> bool:
    """Whether a PodGroup was made for this version of its job, or a later one.

    That of a job which another controller has created, and which is taken over, notes no version: it is the current one.
    """
    noted = group.metadata.annotations.get(binding_of(group.api_version).key(names.JOB_VERSION), "")
    return not noted.isdecimal() or int(noted) >= version


def age(metadata: ObjectMeta | Meta) -> tuple[float, str]:
    """Return the sort key by which older objects come first, those of the same age by name."""
    created = metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, metadata.name)


def oldest_first(commands: Iterable[Command]) -> list[Command]:
    """Return Commands in the order of their creation."""
    return sorted(commands, key=lambda command: age(command.metadata))
