"""Events of a job, derived from its status and the objects that exist.

Nothing is remembered: an event is a difference between the last written status and the current objects. A failed pod of the
current version is a failure without reaction yet, because a reaction increments the version or the retry of the pod. A missing
pod that the status counts was deleted by others, because pods that the controller deletes are no longer counted. An event
therefore survives a crash between its cause and the reaction, and is handled once.
"""

from collections.abc import Iterable, Iterator, Sequence

from volcanopy.api.batch import BatchJob, BatchJobStatus, TaskSpec
from volcanopy.api.core import PodGroup
from volcanopy.api.lifecycle import Event
from volcanopy.jobcontroller.naming import pod_name
from volcanopy.jobcontroller.observed import Member
from volcanopy.jobcontroller.policies import JobEvent


def job_events(
    job: BatchJob, status: BatchJobStatus, members: Sequence[Member], pod_group: PodGroup | None
) -> Iterator[JobEvent]:
    """Yield the events without reaction, those of pods first, in the order of tasks and indices.

    ``members`` are the pods of the job without those that are being replaced or exceed the replicas.
    """
    for task in job.spec.tasks:
        mine = [member for member in members if member.task == task.name]
        yield from _of_pods(member for member in mine if member.version == status.version and not member.leaving)
        yield from _lost(job, status, task, mine)
        yield from _of_task(status, task, [member for member in mine if not member.leaving])
    if pod_group is not None and pod_group.status.phase == "Unknown" and not status.pod_group_unknown:
        yield JobEvent(Event.UNKNOWN, message="some pods of the running job are unschedulable")
    if 0 < status.observed_generation < job.metadata.generation:
        yield JobEvent(Event.JOB_UPDATED, message="the job was updated")


def _of_pods(members: Iterable[Member]) -> Iterator[JobEvent]:
    for member in members:
        if member.phase == "Failed":
            yield _about(Event.POD_FAILED, member, member.failure)
        elif member.phase == "Pending":
            yield _about(Event.POD_PENDING, member, f"pod {member.name} is pending")


def _about(event: Event, member: Member, message: str) -> JobEvent:
    uid = member.pod.metadata.uid
    codes = member.exit_codes if event is Event.POD_FAILED else ()
    return JobEvent(event, member.task, member.partition, member.name, uid, codes, member.retry, message)


def _lost(job: BatchJob, status: BatchJobStatus, task: TaskSpec, mine: Sequence[Member]) -> Iterator[JobEvent]:
    """Yield pods that the status counts and that are deleted or terminating."""
    counted = status.task_status_count.get(task.name)
    known = min(sum(counted.phase.values()) if counted else 0, task.replicas)
    staying = {member.name for member in mine if not member.leaving}
    lost = known - len(staying)
    if lost <= 0:
        return
    leaving = {member.name: member for member in mine if member.leaving}
    gone = [pod_name(job, task, index) for index in range(task.replicas)]
    absent = sorted((name for name in gone if name not in staying), key=lambda name: name not in leaving)
    for name in absent[:lost]:
        member = leaving.get(name)
        partition = member.partition if member else _partition(task, gone.index(name))
        uid = member.pod.metadata.uid if member else ""
        retry = member.retry if member else status.retry_count
        message = f"pod {name} was deleted"
        yield JobEvent(Event.POD_EVICTED, task.name, partition, name, uid, (), retry, message)


def _partition(task: TaskSpec, index: int) -> str:
    return str(index // task.partition_policy.partition_size) if task.partition_policy else ""


def _of_task(status: BatchJobStatus, task: TaskSpec, mine: Sequence[Member]) -> Iterator[JobEvent]:
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
        yield JobEvent(Event.TASK_FAILED, task.name, worst.partition, worst.name, retry=worst.retry, message=message)
