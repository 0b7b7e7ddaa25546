"""Fields of Kubernetes objects as scheduling reads them: status, priority, role, flags, and comparisons."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import IntEnum
from operator import attrgetter

from msgspec.structs import replace

from volcanopy.api import core, names, quantity
from volcanopy.api.bindings import is_job
from volcanopy.api.model import parse_duration
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

GROUP_KEYS = (names.GROUP_NAME, names.POD_GROUP_NAME)
_MOST_PRIORITY = 2**31 - 1
_PHASES = {
    status.name.capitalize(): status for status in (Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN)
}


class Quality(IntEnum):
    """Kubernetes quality of service class of a pod, ordered."""

    BEST_EFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2


def quality_of_service(spec: core.PodSpec) -> Quality:
    """The quality of service of a pod; guaranteed: all containers request their limits of cpu and memory."""
    containers = (*spec.containers, *spec.init_containers)
    if not any(container.resources.requests or container.resources.limits for container in containers):
        return Quality.BEST_EFFORT
    for container in containers:
        limits = quantity.amounts(container.resources.limits)
        requests = limits | quantity.amounts(container.resources.requests)
        if any(name not in limits or requests[name] != limits[name] for name in ("cpu", "memory")):
            return Quality.BURSTABLE
    return Quality.GUARANTEED


def job_key(pod: core.Pod) -> str:
    """``namespace/name`` of the pod's group, empty if it names none."""
    metadata = pod.metadata
    group = metadata.annotations.get(names.GROUP_NAME) or metadata.annotations.get(names.POD_GROUP_NAME)
    return f"{metadata.namespace}/{group}" if group else ""


def task_job(pod: core.Pod) -> str:
    """The job of a task: the group that the pod names; of a pod on a node, else, the one that the controllers give it."""
    key = job_key(pod)
    if key or not pod.spec.node_name:
        return key
    return f"{pod.metadata.namespace}/{names.workload_group((pod.metadata.controller or pod.metadata).uid)}"


def named_queue(pod: core.Pod) -> str:
    """The queue that a pod names, empty if it names none: as the controllers write it in a job's, as admission checks it else."""
    notes, labels, owner = pod.metadata.annotations, pod.metadata.labels, pod.metadata.controller
    if owner is not None and is_job(owner.api_version, owner.kind):
        return labels.get(names.QUEUE_NAME) or notes.get(names.QUEUE_NAME, "")
    return notes.get(names.POD_QUEUE_NAME, "")


def role_of(pod: core.Pod) -> str:
    """The task template that a pod comes from, empty without one."""
    return pod.metadata.annotations.get(names.TASK_SPEC) or pod.metadata.labels.get(names.TASK_SPEC, "")


def is_over(pod: core.Pod) -> bool:
    """Whether a pod is terminal (Succeeded or Failed) and uses no resources."""
    return pod.status.phase in {"Succeeded", "Failed"}


def status_of(pod: core.Pod, assumed_node: str, evicted: bool) -> tuple[Status, str]:
    """Return the status and the node of a pod, including effects of plans that are not observed yet."""
    phase, node = pod.status.phase, pod.spec.node_name
    if phase in {"Succeeded", "Failed"}:
        return _PHASES[phase], node
    if evicted or (pod.metadata.deletion_timestamp is not None and pod.is_terminating):
        return Status.RELEASING, node or assumed_node
    if phase in _PHASES:
        return _PHASES[phase], node
    if node:
        return Status.BOUND, node
    return (Status.BINDING, assumed_node) if assumed_node else (Status.PENDING, "")


def task_priority(pod: core.Pod) -> int:
    """The priority of a task within its job: the annotation's, up to that of any pod, else the pod's, else 1."""
    priority = pod.metadata.annotations.get(names.TASK_PRIORITY)
    if priority is not None:
        with suppress(ValueError):
            return max(-_MOST_PRIORITY, min(int(priority), _MOST_PRIORITY))
    return 1 if pod.spec.priority is None else pod.spec.priority


def class_priority(name: str, classes: Mapping[str, core.PriorityClass]) -> int:
    """The value of a priority class; of the global default where none is named or it is unknown; else 0."""
    if name in classes:
        return classes[name].value
    defaults = [item for item in classes.values() if item.global_default]
    return min(defaults, key=lambda item: (item.value, item.metadata.name)).value if defaults else 0


def flag(meta: core.Meta, key: str, absent: bool) -> bool:
    """Return a boolean annotation, or else the label of the same key."""
    value = meta.annotations.get(key, meta.labels.get(key))
    return absent if value is None else value.lower() in {"true", "1", "t"}


def duration(text: str) -> timedelta | None:
    """A duration such as ``1h30m``; None for a text that is none, or is not above zero."""
    try:
        result = parse_duration(text)
    except ValueError:
        return None
    return result if isinstance(result, timedelta) and result > timedelta(0) else None


def runtime(pod: core.Pod) -> float:
    """The longest that a pod runs, in seconds: by its deadline or its annotation; 0 without either."""
    text = pod.metadata.annotations.get(names.MAX_RUNTIME)
    limit = None if text is None else duration(text)
    deadline = pod.spec.active_deadline_seconds or 0
    if limit is None:
        return float(deadline)
    return min(limit.total_seconds(), deadline) if deadline else limit.total_seconds()


def seconds(moment: datetime | None) -> float:
    """Return a time as seconds since the epoch, 0 for None."""
    return 0.0 if moment is None else moment.timestamp()


def ordinal(name: str) -> int:
    """The number after the last dash of a name of three parts or more, NONE if that is no number."""
    first, _, last = name.rpartition("-")
    return int(last) if "-" in first and last.isascii() and last.isdigit() and len(last) < 18 else NONE


def countable(resources: core.Quantities | None) -> dict[str, int]:
    """Return the minimal resources of a group without names that only quotas know."""
    counted = {n: q for n, q in (resources or {}).items() if not n.startswith(("requests.", "limits.", "count/"))}
    return quantity.bounded(quantity.amounts(counted), quantity.GROUP_LIMIT)


def queue_resources(queue: core.Queue) -> set[str]:
    """The resources that a queue's limits, or its status, name."""
    spec, status = queue.spec, queue.status
    limits = spec.capability.keys() | spec.deserved.keys() | spec.guarantee.resource.keys()
    limits |= spec.borrowing_limit.keys() | spec.lending_limit.keys()
    limits |= {name for entry in spec.limits for name in entry.resources}
    return limits.union(status.allocated, status.fair_share, status.guaranteed, status.borrowed, status.waiting)


def differs_in_place_only(old: core.Pod, new: core.Pod) -> bool:
    """Whether at most the node and the status of a pod of a group changed; of a copy that is quickly decided."""
    before, after = old.spec, new.spec
    is_copy = old.metadata is new.metadata and (before is after or replace(before, node_name=after.node_name) == after)
    return (is_copy or (_TASK(old) == _TASK(new) and same_shape(old, new))) and bool(job_key(new))


_TASK = attrgetter(
    *("metadata.uid", "metadata.creation_timestamp", "metadata.annotations", "spec.scheduler_name", "spec.priority"),
    *("spec.active_deadline_seconds", "spec.scheduling_gates"),
)
_SHAPE = attrgetter(
    *("containers", "init_containers", "node_selector", "affinity", "tolerations", "topology_spread_constraints"),
    *("resources", "volumes", "resource_claims", "overhead"),
)
_POD = attrgetter(
    *("metadata.uid", "metadata.deletion_timestamp", "metadata.labels", "metadata.annotations", "status.phase"),
    *("status.nominated_node_name", "status.resource_claim_statuses", "is_terminating", "spec"),
)
_GROUP = attrgetter(
    "metadata.creation_timestamp", "metadata.labels", "metadata.annotations", "spec", "status.alternative"
)


def same_shape(old: core.Pod, new: core.Pod) -> bool:
    """Whether nothing changed that could give the pod another shape."""
    return old.metadata.labels == new.metadata.labels and same_spec(old, new)


def same_spec(old: core.Pod, new: core.Pod) -> bool:
    """As :func:`same_shape`, where labels do not matter."""
    return old.spec is new.spec or _SHAPE(old.spec) == _SHAPE(new.spec)


def same_traits(old: core.Node, new: core.Node) -> bool:
    """Whether a node's labels, annotations other than measures, taints and schedulability are unchanged."""
    return (
        old.metadata.labels == new.metadata.labels
        and (
            old.metadata.annotations == new.metadata.annotations
            or _without_measures(old.metadata.annotations) == _without_measures(new.metadata.annotations)
        )
        and old.spec == new.spec
    )


def _without_measures(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in annotations.items() if not key.startswith(names.MEASURE_PREFIX)}


def same_metadata(old: core.Meta, new: core.Meta) -> bool:
    """Whether labels and annotations did not change."""
    return old.labels == new.labels and old.annotations == new.annotations


def same_pod(old: core.Pod, new: core.Pod) -> bool:
    """Whether nothing about a pod changed that scheduling looks at; conditions and container states are not."""
    return bool(_POD(old) == _POD(new))


def same_node(old: core.Node, new: core.Node) -> bool:
    """Whether nothing about a node changed that scheduling looks at."""
    return (
        same_traits(old, new)
        and old.metadata.annotations == new.metadata.annotations
        and old.status.images == new.status.images
        and old.status.allocatable == new.status.allocatable
        and (bool(new.status.allocatable) or old.status.capacity == new.status.capacity)
    )


def same_group(old: core.PodGroup, new: core.PodGroup) -> bool:
    """Whether at most the status of a pod group changed, but for its alternative, as far as scheduling looks at it."""
    return bool(_GROUP(old) == _GROUP(new))


def condition(group: core.PodGroup, kind: str) -> core.Condition | None:
    """The condition of this type that is true in the status of a pod group."""
    return next((item for item in group.status.conditions if item.type == kind and item.status == "True"), None)
