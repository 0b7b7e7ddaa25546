"""Observed objects of a job: its pods, its PodGroup and its Commands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product

from msgspec.structs import replace

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, Restart
from volcanopy.api.container_states import ContainerStatus, Terminated, repeated_failure, termination, waiting_problem
from volcanopy.api.core import Meta, Pod, PodGroup, PodStatus
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import ObjectMeta
from volcanopy.api.quantity import counted
from volcanopy.jobcontroller.naming import pod_name

_ENDED = frozenset({"Succeeded", "Failed"})
DISRUPTION_TARGET = "DisruptionTarget"
"""The type of the condition of pods that are evicted."""


class JobPod:
    """A pod of a job: which one of which task, made at which version and retry of the job.

    ``phase`` is the pod's phase, ``ended`` whether it has run to its end, well or not. ``evicted`` is whether it failed because
    of its node: it is deleted, like one of a lost node. ``leaving`` is whether it is evicted or being deleted, by whomever. They
    are read once, because large jobs use them very often. ``removed`` is whether it had succeeded
    before it was deleted: its success counts, and its task does not run again.
    """

    __slots__ = (
        "ended",
        "evicted",
        "index",
        "leaving",
        "name",
        "partition",
        "phase",
        "pod",
        "removed",
        "retry",
        "task",
        "version",
    )

    def __init__(self, pod: Pod, task: str, index: int, version: int, retry: int, partition: str) -> None:
        self.partition = partition
        """The partition that the pod is in; empty where its task has none."""
        self.pod, self.task, self.index, self.version, self.retry = pod, task, index, version, retry
        self.name = pod.metadata.name
        self.phase = pod.status.phase or "Pending"
        self.evicted = self.phase == "Failed" and disruption(pod) is not None
        self.leaving = self.evicted or pod.metadata.deletion_timestamp is not None
        self.ended = self.phase in _ENDED
        self.removed = False

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted and still exists."""
        return self.pod.metadata.deletion_timestamp is not None and not self.removed

    @property
    def waits(self) -> bool:
        """Whether it has no node yet, and may get one."""
        return self.phase == "Pending" and not self.pod.spec.node_name and not self.leaving

    @property
    def ready(self) -> bool:
        """Whether another task may rely on it: it has succeeded, or runs with every container ready."""
        if self.phase == "Succeeded":
            return True
        statuses = self.pod.status.container_statuses
        return self.phase == "Running" and all(status.ready for status in statuses)

    @property
    def _containers(self) -> tuple[ContainerStatus, ...]:
        return (*self.pod.status.init_container_statuses, *self.pod.status.container_statuses)

    @property
    def _task_containers(self) -> list[ContainerStatus]:
        """Its containers without sidecars: these may restart as often as they like, and do not decide how the pod ends."""
        sidecars = self.pod.spec.sidecars
        return [container for container in self._containers if container.name not in sidecars]

    @property
    def _failed_ends(self) -> dict[int, Terminated]:
        """The terminations of its containers that failed, the first with each exit code.

        Sidecars do not count: they are stopped with the pod, often by a signal, and never the reason of its failure.
        """
        ends: dict[int, Terminated] = {}
        for container in self._task_containers:
            end = container.state.terminated
            if end is not None and end.exit_code:
                ends.setdefault(end.exit_code, end)
        return ends

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """The exit codes of its containers that failed, each once, in the order of the containers."""
        return tuple(self._failed_ends)

    @property
    def failure(self) -> str:
        """That it failed and how, as a sentence."""
        status = self.pod.status
        codes = ", ".join(termination(end.exit_code, end.reason, end.message) for end in self._failed_ends.values())
        why = ": ".join(filter(None, (status.reason, " ".join(status.message.split()))))
        return f"pod {self.name} failed" + (f" with exit code {codes}" if codes else "") + (f": {why}" if why else "")

    @property
    def start_problem(self) -> str:
        """That a pending pod cannot start and why, as a clause; empty while it starts as usual."""
        for container in self._containers:
            waiting = container.state.waiting
            if waiting is not None and (problem := waiting_problem(waiting.reason, waiting.message)):
                return f'pod {self.name} cannot start: container "{container.name}": {problem}'
        return ""

    @property
    def repeated_failure(self) -> str:
        """That a running pod has a container that failed, was restarted and does not run, as a clause; empty otherwise."""
        for container in self._containers:
            end = repeated_failure(container.restart_count, container.state, container.last_state)
            if end is not None:
                text = termination(end.exit_code, end.reason, end.message)
                restarts = counted(container.restart_count, "restart")
                return f'pod {self.name} fails repeatedly: container "{container.name}" exited with code {text} ({restarts})'
        return ""

    @property
    def last_failure(self) -> str:
        """How a container that was restarted on the spot ended last, as a clause; empty if none was, or none failed."""
        for container in self._task_containers:
            end = container.last_state.terminated
            if end is not None and end.exit_code:
                text = termination(end.exit_code, end.reason, end.message)
                return f'pod {self.name}: container "{container.name}" exited with code {text}'
        return ""

    @property
    def container_restarts(self) -> int:
        """How often its containers have been restarted on the spot, without sidecars."""
        return sum(container.restart_count for container in self._task_containers)


class RestartIndex:
    """Restarts by what they replace, so that the cost of a look-up does not grow with their number."""

    def __init__(self, restarts: Iterable[Restart] = ()) -> None:
        self._before: dict[tuple[str, str, str], int] = {}
        for restart in restarts:
            self.add(restart)

    def add(self, restart: Restart) -> None:
        """Add a restart."""
        key = (restart.task, restart.partition, restart.pod)
        self._before[key] = max(restart.before, self._before.get(key, 0))

    def replaces(self, task: str, partition: str, pod: str, retry: int) -> bool:
        """Whether a restart replaces the pod of this task, partition and name that was created at this retry."""
        before = self._before
        return bool(before) and any(retry < before.get(key, 0) for key in _targets(task, partition, pod))


def unfinished(restarts: Sequence[Restart], members: Iterable[JobPod]) -> list[Restart]:
    """Return the restarts of which pods remain that they replace."""
    oldest: dict[tuple[str, str, str], int] = {}
    if restarts:
        for member in members:
            for key in _targets(member.task, member.partition, member.name):
                oldest[key] = min(member.retry, oldest.get(key, member.retry))
    keys = [(restart.task, restart.partition, restart.pod) for restart in restarts]
    return [
        restart for restart, key in zip(restarts, keys, strict=True) if key in oldest and oldest[key] < restart.before
    ]


def _targets(task: str, partition: str, pod: str) -> Iterator[tuple[str, str, str]]:
    """Yield the targets of restarts that replace a pod."""
    return product({"", task}, {"", partition}, {"", pod})


@dataclass(frozen=True)
class Disruption:
    """Pods of a job that were evicted together: when, by what, how many."""

    time: datetime
    by: str
    pods: int


def disruption(pod: Pod) -> tuple[datetime, str] | None:
    """When a pod was evicted and by what, from its condition ``DisruptionTarget``; None if it was not."""
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET and condition.status == "True":
            time = condition.last_transition_time or pod.metadata.deletion_timestamp
            if time is not None:
                time = time if time.tzinfo else time.replace(tzinfo=UTC)
                return time.replace(microsecond=0), (condition.message or condition.reason)[:1024]
    return None


def may_matter(before: Pod, after: Pod) -> bool:
    """Whether a plan may depend on the change of a pod.

    It depends on no condition but that of an eviction, and on a node only together with the phase that follows from it.
    """
    return (
        before.metadata != replace(after.metadata, resource_version=before.metadata.resource_version)
        or before.status != replace(after.status, conditions=before.status.conditions)
        or disruption(before) != disruption(after)
    )


def group_may_matter(before: PodGroup, after: PodGroup) -> bool:
    """Whether a plan may depend on the change of a PodGroup; it does on no count of its pods."""
    old, new = before.status, after.status
    return (
        before.metadata != replace(after.metadata, resource_version=before.metadata.resource_version)
        or before.spec != after.spec
        or old != replace(new, running=old.running, succeeded=old.succeeded, failed=old.failed)
    )


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
    learnt_of_others: timedelta | None = None
    """The run time learnt from other jobs of its user or queue: for a job that was never run and has no walltime."""
    learnt_by_alternative: Mapping[str, timedelta] = field(default_factory=dict)
    """The same for each alternative of a job that the scheduler has not selected one for."""
    removed: tuple[Pod, ...] = ()
    """Pods that had succeeded before they were deleted, until the status counts them, as they were before the deletion."""
    not_ready: Mapping[str, str] = field(default_factory=dict)
    """Why each node that is not ready is not, by name."""
    pods_before_admission: bool = False
    """Whether its pods may be created together with its PodGroup (:mod:`volcanopy.jobcontroller.admission_backlog`)."""

    def members(self, job: BatchJob) -> tuple[JobPod, ...]:
        """The pods that the job controls, by task and index."""
        order = {task.name: number for number, task in enumerate(job.spec.tasks)}
        members = {member.name: member for member in _members(job, self.pods)}
        of_index: dict[tuple[str, int], list[JobPod]] = {}
        removed = (*removed_members(job), *_members(job, self.removed))
        for member in members.values() if removed else ():
            of_index.setdefault((member.task, member.index), []).append(member)
        for member in removed:
            task, others = job.spec.task(member.task), of_index.setdefault((member.task, member.index), [])
            if task is None or task.partition_policy:  # a partition starts as a whole
                continue
            unsuccessful = [
                other for other in others if not other.removed and not (other.leaving and other.phase == "Succeeded")
            ]
            if not unsuccessful or (job.spec.replaces_terminating and all(pod.is_terminating for pod in unsuccessful)):
                member.removed = True
                others[:] = [*unsuccessful, member]
        everyone = [member for others in of_index.values() for member in others] if removed else members.values()
        return tuple(sorted(everyone, key=lambda pod: (order.get(pod.task, len(order)), pod.task, pod.index, pod.name)))


def _members(job: BatchJob, pods: Iterable[Pod]) -> Iterator[JobPod]:
    uid = job.metadata.uid
    for pod in pods:
        if _controls(uid, pod) and (member := _member(pod)) is not None:
            yield member


def removed_members(job: BatchJob) -> Iterator[JobPod]:
    """Yield the pods that the status counts as succeeded although they are deleted.

    Their version is lost: it is that before the current one, so that nothing but the end of the job follows from them anew.
    """
    for task in job.spec.tasks:
        for index in indexes(job.status.completed_indexes.get(task.name, ""), task.replicas):
            metadata = Meta(name=pod_name(job, task, index), namespace=job.metadata.namespace)
            pod = Pod(metadata=metadata, status=PodStatus(phase="Succeeded"))
            yield JobPod(pod, task.name, index, job.status.version - 1, job.status.retry_count, "")


def indexes(text: str, end: int) -> Iterator[int]:
    """Yield the numbers of a text such as ``0-3,7`` that are below ``end``."""
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield from range(int(first), min(int(last or first) + 1, end))


def index_text(numbers: Iterable[int]) -> str:
    """Return ascending numbers as a text such as ``0-3,7``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def _controls(uid: str, pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == uid


def _member(pod: Pod) -> JobPod | None:
    notes, labels = pod.metadata.annotations, pod.metadata.labels
    task, index = names.TASK_SPEC, names.TASK_INDEX
    try:
        return JobPod(
            pod,
            notes[task] if task in notes else labels[task],
            int(notes[index] if index in notes else labels[index]),
            int(notes.get(names.JOB_VERSION, "0")),
            int(notes.get(names.JOB_RETRY_COUNT, "0")),
            labels.get(names.PARTITION_ID, ""),
        )
    except (KeyError, ValueError):
        return None


def is_of_version(group: PodGroup, version: int) -> bool:
    """Whether a PodGroup was made for this version of its job, or a later one.

    That of a job which another controller has created, and which is taken over, notes no version: it is the current one.
    """
    noted = group.metadata.annotations.get(names.JOB_VERSION, "")
    return not noted.isdecimal() or int(noted) >= version


def age(metadata: ObjectMeta | Meta) -> tuple[float, str]:
    """Return the sort key by which older objects come first, those of the same age by name."""
    created = metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, metadata.name)


def oldest_first(commands: Iterable[Command]) -> list[Command]:
    """Return Commands in the order of their creation."""
    return sorted(commands, key=lambda command: age(command.metadata))
