"""Events of a job, derived from its status and the objects that exist, and the lifecycle policies that respond to them.

Nothing is remembered: an event is a difference between the last written status and the current objects. A failed pod of the
current version is a failure without reaction yet, because a reaction increments the version or the retry of the pod. A missing
pod that the status counts was deleted by others, because pods that the controller deletes are no longer counted. An event
therefore survives a crash between its cause and the reaction, and is handled once.

The policies of the task precede those of the job, and the first match in a list applies. `*` matches every event except
PodPending (every pod is pending at first: it needs its own policy with a timeout) and JobUpdated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from types import MappingProxyType

from volcanopy.api.batch import BatchJob, BatchJobSpec, BatchJobStatus, TaskSpec
from volcanopy.api.core import PodGroup
from volcanopy.api.lifecycle import Action, Event, LifecyclePolicy
from volcanopy.jobcontroller.naming import pod_name
from volcanopy.jobcontroller.observed import JobPod, disruption

_NOT_ANY = frozenset({Event.POD_PENDING, Event.JOB_UPDATED})


@dataclass(frozen=True)
class JobEvent:
    """An event of a job, a task or a pod.

    ``retry`` is the retry count of the pod, ``message`` a human-readable message. With ``old`` it occurred before the
    job was last stopped, so that only actions that end the job may follow.
    """

    event: Event
    task: str = ""
    partition: str = ""
    pod: str = ""
    uid: str = ""
    exit_codes: tuple[int, ...] = ()
    retry: int = 0
    message: str = ""
    old: bool = False
    evicted: bool = False
    """Whether the pod was evicted for a cause that the message has, and not just deleted."""


@dataclass(frozen=True)
class Response:
    """Action of a policy, and its delay."""

    action: Action
    delay: timedelta = timedelta(0)


def respond(spec: BatchJobSpec, job_event: JobEvent) -> Response | None:
    """Return the response of the first matching policy of the task, else of the job, if there is one."""
    task = spec.task(job_event.task) if job_event.task else None
    for policies in (task.policies if task else (), spec.policies):
        if policy := _first(policies, job_event):
            return Response(policy.action, policy.timeout or timedelta(0))
    return None


def _first(policies: Iterable[LifecyclePolicy], job_event: JobEvent) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _fits(policy, job_event)), None)


def _fits(policy: LifecyclePolicy, job_event: JobEvent) -> bool:
    if policy.exit_code is not None and policy.exit_code in job_event.exit_codes:
        return True
    if job_event.event is Event.POD_PENDING and not policy.timeout:
        return False
    events = policy.all_events
    return job_event.event in events or (Event.ANY in events and job_event.event not in _NOT_ANY)


def job_events(
    job: BatchJob,
    status: BatchJobStatus,
    members: Sequence[JobPod],
    pod_group: PodGroup | None,
    eviction: str = "",
    not_ready: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[JobEvent]:
    """Yield the events without reaction, those of pods first, in the order of tasks and indices.

    ``members`` are the pods of the job without those that are being replaced or exceed the replicas. ``eviction`` is the
    cause of the latest eviction that the status does not have, of pods that may be gone; ``not_ready`` has the reason of each
    node that is not ready.
    """
    for task in job.spec.tasks:
        mine = [member for member in members if member.task == task.name]
        yield from _of_pods(member for member in mine if member.version == status.version and not member.leaving)
        yield from _lost(job, status, task, mine, eviction, not_ready)
        yield from _of_task(status, task, [member for member in mine if not member.leaving])
    if pod_group is not None and pod_group.status.phase == "Unknown" and not status.pod_group_unknown:
        yield JobEvent(Event.UNKNOWN, message="some pods of the running job are unschedulable")
    if 0 < status.observed_generation < job.metadata.generation:
        yield JobEvent(Event.JOB_UPDATED, message="the job was updated")


def _of_pods(members: Iterable[JobPod]) -> Iterator[JobEvent]:
    for member in members:
        if member.phase == "Failed":
            yield _about(Event.POD_FAILED, member, member.failure)
        elif member.phase == "Pending":
            yield _about(Event.POD_PENDING, member, member.start_problem or f"pod {member.name} is pending")


def _about(event: Event, member: JobPod, message: str) -> JobEvent:
    uid = member.pod.metadata.uid
    codes = member.exit_codes if event is Event.POD_FAILED else ()
    return JobEvent(event, member.task, member.partition, member.name, uid, codes, member.retry, message)


def _lost(
    job: BatchJob,
    status: BatchJobStatus,
    task: TaskSpec,
    mine: Sequence[JobPod],
    eviction: str,
    not_ready: Mapping[str, str],
) -> Iterator[JobEvent]:
    """Yield pods that the status counts and that are deleted or terminating."""
    counted = status.task_status_count.get(task.name)
    total = min(sum(counted.phase.values()) if counted else 0, task.replicas)
    staying = {member.index for member in mine if not member.leaving}
    lost = total - len(staying)
    if lost <= 0:
        return
    leaving = {member.index: member for member in mine if member.leaving}
    # Those that were deleted last: earlier ones, which terminate for long on a lost node, are counted no more.
    absent = sorted(
        (index for index in range(task.replicas) if index not in staying),
        key=lambda index: -_deletion(leaving.get(index)),
    )
    for index in absent[:lost]:
        member = leaving.get(index)
        if member is None:
            name, partition = pod_name(job, task, index), _partition(task, index)
            message = f"pod {name} was evicted: {eviction}" if eviction else f"pod {name} was deleted"
            yield JobEvent(
                Event.POD_EVICTED,
                task.name,
                partition,
                name,
                retry=status.retry_count,
                message=message,
                evicted=bool(eviction),
            )
            continue
        observed = disruption(member.pod)
        message = f"pod {member.name} was evicted: {observed[1]}" if observed else f"pod {member.name} was deleted"
        if node := not_ready.get(member.pod.spec.node_name):
            message += f' (node "{member.pod.spec.node_name}" {node})'
        about = _about(Event.POD_EVICTED, member, message)
        yield replace(about, evicted=bool(observed))


def _deletion(member: JobPod | None) -> float:
    """Return when a pod is or was to be gone; 0 for one that is gone."""
    if member is None:
        return 0.0
    time = member.pod.metadata.deletion_timestamp
    return time.timestamp() if time is not None else inf


def _partition(task: TaskSpec, index: int) -> str:
    return str(index // task.partition_policy.partition_size) if task.partition_policy else ""


def _of_task(status: BatchJobStatus, task: TaskSpec, mine: Sequence[JobPod]) -> Iterator[JobEvent]:
    done = [member for member in mine if member.phase == "Succeeded"]
    if task.replicas and len(done) >= task.replicas:
        about = max(done, key=lambda member: member.version)
        yield JobEvent(
            Event.TASK_COMPLETED,
            task.name,
            about.partition,
            about.name,
            retry=about.retry,
            message=f'all pods of task "{task.name}" succeeded',
            old=about.version < status.version,
        )
    alive = [member for member in mine if not member.ended and member.version == status.version]
    restarts = sum(member.container_restarts for member in alive)
    if restarts >= max(task.max_retry, 1):
        worst = max(alive, key=lambda member: member.container_restarts)
        message = f'maxRetry of task "{task.name}" reached ({restarts}/{max(task.max_retry, 1)} container restarts)'
        if last := worst.last_failure:
            message = f"{message}: {last}"
        yield JobEvent(Event.TASK_FAILED, task.name, worst.partition, worst.name, retry=worst.retry, message=message)
