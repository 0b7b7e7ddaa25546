"""What a job has used and what happened to it: resource-seconds, evictions and the time of its admission, in its status.

Resource-seconds are added up whenever the status changes for another reason, in whole seconds: the request of each pod
for the time since ``usageTime`` in which it was on a node. A pod that is gone without having been seen ended counts up to now.
The same status write that ends the interval begins the next, so that a crash neither loses nor repeats one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from volcanopy.api import quantity
from volcanopy.api.batch import BatchJob, BatchJobStatus, Eviction, TaskSpec
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of_json
from volcanopy.api.core import Pod, PodGroup
from volcanopy.jobcontroller.observed import Disruption, JobPod
from volcanopy.jobcontroller.status import ADMITTED

MOST_EVICTIONS = 32
"""The evictions that the status keeps, the last ones."""
_ON_NODES = ("Running", "Succeeded", "Failed", "Unknown")


def accounted(
    job: BatchJob,
    status: BatchJobStatus,
    members: Sequence[JobPod],
    group: PodGroup | None,
    disruptions: Iterable[Disruption],
    now: datetime,
) -> BatchJobStatus:
    """Return the status with evictions, admission and resource-seconds up to now."""
    now = now.replace(microsecond=0)
    update: dict[str, object] = {"evictions": with_evictions(status.evictions, disruptions)}
    if status.admitted_time is None and group is not None and group.status.phase in ADMITTED:
        # Pods of a small job may be placed before its controller sees the admission.
        update["admitted_time"] = _aware(group.status.admitted_at) or now
    if job.status.usage_time is not None or any(_start(member.pod) is not None for member in members):
        total = Counter(quantity.amounts(job.status.resource_seconds))
        total.update(usage(job, members, now))
        update |= {"resource_seconds": quantity.texts(quantity.bounded(total, quantity.INT64_MAX)), "usage_time": now}
    return status.model_copy(update=update)


def with_evictions(evictions: Sequence[Eviction], disruptions: Iterable[Disruption]) -> list[Eviction]:
    """Return the evictions with those that were observed; pods that are evicted together are one entry."""
    pods = {(entry.time, entry.by): entry.pods for entry in evictions}
    for disruption in disruptions:
        key = (disruption.time, disruption.by)
        pods[key] = max(pods.get(key, 0), disruption.pods)
    return [Eviction(time=time, by=by, pods=number) for (time, by), number in sorted(pods.items())][-MOST_EVICTIONS:]


def latest_cause(evictions: Sequence[Eviction], disruptions: Iterable[Disruption]) -> str:
    """Return by what pods were evicted last, as far as the status does not have it; empty if it has all evictions."""
    recorded = {(entry.time, entry.by): entry.pods for entry in evictions}
    new = [eviction for eviction in disruptions if eviction.pods > recorded.get((eviction.time, eviction.by), 0)]
    return max(new, key=lambda eviction: eviction.time).by if new else ""


def usage(job: BatchJob, members: Sequence[JobPod], now: datetime) -> dict[str, int]:
    """Return the resource-seconds since the last status, in base units: of cpu and of extended resources."""
    since = job.status.usage_time
    total: Counter[str] = Counter()
    for task in job.spec.tasks:
        mine = [member for member in members if member.task == task.name]
        seconds = sum(_seconds(member, since, now) for member in mine)
        if since is not None:
            seconds += _missing(job.status, task, mine) * max(int((now - since).total_seconds()), 0)
        if seconds:
            for name, units in pod_requests(resources_of_json(task.template.get("spec") or {})).items():
                if units and (name == "cpu" or "/" in name):
                    total[name] += units * seconds
    return dict(total)


def _missing(status: BatchJobStatus, task: TaskSpec, mine: Sequence[JobPod]) -> int:
    """Return the number of pods that ran at the last status and are gone since."""
    counted = status.task_status_count.get(task.name)
    if counted is None:
        return 0
    before = sum(counted.phase.get(phase, 0) for phase in _ON_NODES)
    return min(max(before - sum(member.phase in _ON_NODES for member in mine), 0), counted.phase.get("Running", 0))


def _seconds(member: JobPod, since: datetime | None, now: datetime) -> int:
    """Return for how many seconds of the interval a pod was on a node."""
    begin = _start(member.pod)
    if begin is None:
        return 0
    begin = begin if since is None else max(begin, since)
    end = min(_end(member.pod) or now, now) if member.ended else now
    return max(int((end - begin).total_seconds()), 0)


def _start(pod: Pod) -> datetime | None:
    return _aware(pod.status.start_time)


def _end(pod: Pod) -> datetime | None:
    """Return when the last container of an ended pod ended; None if that is not known."""
    ends = [status.state.terminated for status in pod.status.container_statuses]
    times = [time for end in ends if end is not None and (time := _aware(end.finished_at)) is not None]
    return max(times, default=None)


def _aware(time: datetime | None) -> datetime | None:
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)
