"""Which pods a job should have, and exactly how each is made.

A pod's name follows from its job, task and index alone, so making it twice makes it once.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import count, islice
from typing import Any, Protocol

import msgspec

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobStatus, TaskSpec, VolumeSpec
from volcanopy.api.core import MOST_WAITING_PODS
from volcanopy.api.model import Json
from volcanopy.jobcontroller.naming import owner_reference, pod_group_name, pod_name
from volcanopy.jobcontroller.observed import JobPod
from volcanopy.jobcontroller.plan import CreatePod
from volcanopy.jobcontroller.plugins.plugin import JobPlugin, containers

_FROM_JOB_ANNOTATIONS = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE)
_BUDGETS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
_FROM_JOB_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_LABEL_VALUE_LENGTH = 63


class PodMaker(Protocol):
    """Makes the manifest of the pod of a task with an index, or of its replacement with a number."""

    def __call__(self, index: int, replacement: int = 0) -> Json:
        """Return the manifest."""
        ...


def started_tasks(job: BatchJob, members: Sequence[JobPod]) -> list[TaskSpec]:
    """The tasks that need not wait (any more) for others; ``members`` are the pods that stay."""
    counts: dict[str, int] = {}
    for member in members:
        counts[member.task] = counts.get(member.task, 0) + member.ready
    ready = frozenset(task.name for task in job.spec.tasks if counts.get(task.name, 0) >= task.needed)
    return [task for task in job.spec.tasks if _may_start(task, ready, counts)]


def _may_start(task: TaskSpec, ready: frozenset[str], present: Collection[str]) -> bool:
    """Whether a task waits for no other one. One that has pods has started: it is not held back again."""
    if task.depends_on is None or not task.depends_on.name or task.name in present:
        return True
    met = [name in ready for name in task.depends_on.name]
    return any(met) if task.depends_on.iteration == "any" else all(met)


def missing_pods(
    job: BatchJob,
    status: BatchJobStatus,
    started: Iterable[TaskSpec],
    members: Sequence[JobPod],
    taken: Collection[str],
    plugins: Sequence[JobPlugin[Any]],
    *,
    admitted: bool = True,
) -> Iterator[CreatePod]:
    """The pods to create now: those of tasks that may start which nothing stands for, by policy not even a terminating pod.

    Pods beyond the minimum of the job are created as those before them get nodes: a job that requests more than the cluster has
    does not fill the API server with pods that wait. ``members`` are the pods of the job, of which those that have not ended
    count for the parallelism of their task; ``taken`` are the names of all its pods.
    """
    replaces = job.spec.replaces_terminating
    present: dict[str, list[JobPod]] = {}
    for member in members:
        if not (replaces and member.is_terminating):
            present.setdefault(member.task, []).append(member)
    for task in started:
        mine = present.get(task.name, ())
        indexes = {member.index for member in mine}
        absent = (index for index in range(task.replicas) if index not in indexes)
        if not replaces:  # a pod that is not read as a member may have the name
            absent = (index for index in absent if pod_name(job, task, index) not in taken)
        room = job.spec.needed + MOST_WAITING_PODS - sum(member.waits for member in mine)
        if task.parallelism is not None:
            room = min(room, task.parallelism - sum(not member.ended for member in mine))
        make = maker(job, status, task, plugins)
        for index in islice(absent, max(room, 0)):
            number = next(number for number in count() if pod_name(job, task, index, number) not in taken)
            yield CreatePod(pod_name(job, task, index, number), partial(make, index, number), admitted)


def maker(job: BatchJob, status: BatchJobStatus, task: TaskSpec, plugins: Sequence[JobPlugin[Any]]) -> PodMaker:
    """Return a function that makes the manifest of the pod with an index, after all plugins.

    What the pods of a task have in common is made once. Each pod gets a copy, since plugins may change it.
    """
    template = msgspec.json.decode(msgspec.json.encode(task.template))  # a copy at a tenth of the cost of deepcopy
    metadata = template.get("metadata") or {}
    shared = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "",
                "namespace": job.metadata.namespace,
                "labels": dict(metadata.get("labels") or {}) | _labels(job, task),
                "annotations": dict(metadata.get("annotations") or {}) | _annotations(job, status, task),
                "ownerReferences": [owner_reference(job)],
            },
            "spec": _spec(job, template.get("spec") or {}),
        }
    )

    def make(index: int, replacement: int = 0) -> Json:
        made: Json = msgspec.json.decode(shared)
        metadata = made["metadata"]
        metadata["name"] = pod_name(job, task, index, replacement)
        metadata["labels"] |= _labels_of_index(task, index)
        if job.binding.repeats_labels:
            metadata["annotations"][names.TASK_INDEX] = str(index)
        given = [(container, len(container.get("env") or ())) for container in containers(made)] if plugins else ()
        for plugin in plugins:
            made = plugin.pod(made, task, index)
        for container, own in given:  # variables of plugins first: those of the manifest can refer to them
            if own:
                container["env"] = container["env"][own:] + container["env"][:own]
        return made

    return make


def _labels_of_index(task: TaskSpec, index: int) -> dict[str, str]:
    labels = {names.TASK_INDEX: str(index)}
    if task.partition_policy:
        labels[names.PARTITION_ID] = str(index // task.partition_policy.partition_size)
    return labels


def _labels(job: BatchJob, task: TaskSpec) -> dict[str, str]:
    labels = {
        names.TASK_SPEC: task.name,
        names.JOB_NAME: job.metadata.name,
        names.JOB_NAMESPACE: job.metadata.namespace,
    }
    if len(job.spec.queue) <= _LABEL_VALUE_LENGTH:
        labels[names.QUEUE_NAME] = job.spec.queue
    given = job.metadata.labels or {}
    return labels | {key: given[key] for key in _FROM_JOB_LABELS if key in given}


def _annotations(job: BatchJob, status: BatchJobStatus, task: TaskSpec) -> dict[str, str]:
    notes = {names.GROUP_NAME: pod_group_name(job)}
    if len(job.spec.queue) > _LABEL_VALUE_LENGTH:
        notes[names.QUEUE_NAME] = job.spec.queue
    for key, number in ((names.JOB_VERSION, status.version), (names.JOB_RETRY_COUNT, status.retry_count)):
        if number or job.binding.repeats_labels:
            notes[key] = str(number)
    if job.binding.repeats_labels:  # programs for Volcano read these; each annotation costs the API server 5 KiB a pod
        notes[names.TASK_SPEC] = task.name
        notes[names.QUEUE_NAME] = job.spec.queue
        notes[names.JOB_NAME] = job.metadata.name
        notes[names.TEMPLATE_UID] = f"{job.metadata.name}-{task.name}"
    if task.topology_policy:
        notes[names.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    given = job.metadata.annotations or {}
    copied = [key for key in _FROM_JOB_ANNOTATIONS if key in given]
    copied += [key for key in _BUDGETS if key in given][:1]
    return notes | {key: given[key] for key in copied}


def _spec(job: BatchJob, spec: Json) -> Json:
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name or job.binding.scheduler_name
    if priority := spec.get("priorityClassName") or job.spec.priority_class_name:
        spec["priorityClassName"] = priority
    # Kubernetes would restart a container that has ended well, for ever: no job would come to its end.
    spec.setdefault("restartPolicy", "Never")
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    _mount(job, spec)
    return spec


def claim_name(job: BatchJob, number: int, volume: VolumeSpec) -> str:
    """The claim behind a volume of the job: the one that it names, or the one that is made for it."""
    return volume.volume_claim_name or f"{job.metadata.name}-volume-{number}"


def claims(job: BatchJob) -> Iterator[Json]:
    """The claims that are made for the job's volumes."""
    for number, volume in enumerate(job.spec.volumes):
        if not volume.volume_claim_name and volume.volume_claim is not None:
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": claim_name(job, number, volume),
                    "namespace": job.metadata.namespace,
                    "labels": {names.JOB_NAME: job.metadata.name},
                    "ownerReferences": [owner_reference(job)],
                },
                "spec": deepcopy(volume.volume_claim),
            }


def _mount(job: BatchJob, spec: Json) -> None:
    """One pod volume for each claim, and a mount in every container for each of the job's volumes."""
    by_claim: dict[str, str] = {}
    for number, volume in enumerate(job.spec.volumes):
        claim = claim_name(job, number, volume)
        if claim not in by_claim:
            by_claim[claim] = f"job-volume-{number}"
            source = {"name": by_claim[claim], "persistentVolumeClaim": {"claimName": claim}}
            spec.setdefault("volumes", []).append(source)
        for container in spec.get("containers", ()):
            mount = {"name": by_claim[claim], "mountPath": volume.mount_path}
            container.setdefault("volumeMounts", []).append(mount)
