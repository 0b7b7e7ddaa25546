"""The PodGroup that a job asks the scheduler with: how many pods at once, of which tasks, needing what.

Tasks that wait for others (``dependsOn``) are left out of what the gang demands until they may start: the scheduler
would wait for pods that are not made before others run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

import msgspec

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobStatus, TaskSpec
from volcanopy.api.builtin.pod_requests import pod_limits, pod_requests, resources_of_json
from volcanopy.api.core import PodGroup
from volcanopy.api.job_alternatives import with_alternative
from volcanopy.api.model import Json, format_duration, parse_duration
from volcanopy.api.quantity import INT64_MAX, amount, text
from volcanopy.api.scheduling import NetworkTopology
from volcanopy.jobcontroller.naming import inherited_annotations, owner_reference, pod_group_name
from volcanopy.jobcontroller.observed import JobPod

Amounts = dict[str, int]

RUN_TIMES = (names.WALLTIME, names.RUNNING_ESTIMATE, names.LEARNT_ESTIMATE)
"""The annotations with expected run times."""
_CHANGED = (*RUN_TIMES, names.PODS_REJECTED)
"""The annotations that the job controller sets and removes."""
_CONTROLLED = (*_CHANGED, names.PODS_CREATED)
"""The annotations that a PodGroup does not have from its job."""
_UPDATED = ("minMember", "minTaskMember", "minResources", "priorityClassName", "subGroupPolicy", "alternatives")
"""The fields of its spec that a PodGroup takes from its job as long as it exists."""
_NOTHING: Mapping[str, timedelta] = MappingProxyType({})
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def pod_group(
    job: BatchJob,
    status: BatchJobStatus,
    started: Sequence[TaskSpec],
    priorities: Mapping[str, int],
    learnt: timedelta | None = None,
    learnt_by_alternative: Mapping[str, timedelta] = _NOTHING,
    *,
    pods_created: bool = False,
) -> Json:
    """The manifest of the job's PodGroup, of the job's present version. ``started`` are the tasks that may start."""
    return {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {
            "name": pod_group_name(job),
            "namespace": job.metadata.namespace,
            "labels": {names.JOB_NAME: job.metadata.name} | (job.metadata.labels or {}),
            "annotations": {
                key: value for key, value in inherited_annotations(job.metadata).items() if key not in _CONTROLLED
            }
            | run_times(job, learnt)
            | ({names.PODS_CREATED: "true"} if pods_created else {})
            | {names.JOB_VERSION: str(status.version)},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": pod_group_spec(job, started, priorities, learnt_by_alternative),
    }


def without_removed(job: BatchJob, members: Iterable[JobPod]) -> BatchJob:
    """Return the job without the pods that had succeeded before they were deleted: the gang waits for the others only."""
    removed = Counter(member.task for member in members if member.removed)
    if not removed:
        return job
    tasks = [
        task.model_copy(
            update={
                "replicas": task.replicas - removed[task.name],
                "min_available": max(task.needed - removed[task.name], 0),
            }
        )
        for task in job.spec.tasks
    ]
    needed = max(job.spec.needed - removed.total(), 1)
    return job.model_copy(update={"spec": job.spec.model_copy(update={"tasks": tasks, "min_available": needed})})


def pod_group_spec(
    job: BatchJob,
    started: Sequence[TaskSpec],
    priorities: Mapping[str, int],
    learnt: Mapping[str, timedelta] = _NOTHING,
    existing: PodGroup | None = None,
) -> Json:
    """What the gang needs to start. For a job with alternatives that is the first of them, and each in ``alternatives``.

    ``learnt`` are the run times learnt of alternatives; those of an existing PodGroup stay if they are close.
    """
    if job.spec.alternatives:
        return _with_alternatives(job, started, priorities, learnt, existing)
    waiting = len(started) < len(job.spec.tasks)
    member = min(job.spec.needed, sum(task.needed for task in started)) if waiting else job.spec.needed
    spec: Json = {
        "minMember": member,
        "minTaskMember": {task.name: task.needed for task in started},
        "queue": job.spec.queue,
        "minResources": written(min_resources(started, member, priorities)),
    }
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    if job.spec.network_topology:
        spec["networkTopology"] = _topology(job.spec.network_topology)
    if groups := [_sub_group(task) for task in job.spec.tasks if task.partition_policy]:
        spec["subGroupPolicy"] = groups
    return spec


def _with_alternatives(
    job: BatchJob,
    started: Sequence[TaskSpec],
    priorities: Mapping[str, int],
    learnt: Mapping[str, timedelta],
    existing: PodGroup | None,
) -> Json:
    estimates = {item.name: item.running_estimate for item in existing.spec.alternatives} if existing else {}
    own, specs, alternatives = {task.name for task in started}, list[Json](), list[Json]()
    for alternative in job.spec.alternatives:
        name, merged = alternative.name, with_alternative(job, alternative.name)
        tasks = [task for task in merged.spec.tasks if task.name in own]
        spec = pod_group_spec(merged, tasks, priorities)
        estimate = merged.spec.running_estimate or _unchanged(estimates.get(name, ""), learnt.get(name))
        made: Json = {"name": name, "minResources": spec["minResources"]}
        if estimate:
            made["runningEstimate"] = format_duration(estimate)
        made["tasks"] = [_pods(task, count) for task, count in _chosen(tasks, spec["minMember"], priorities)]
        specs.append(spec)
        alternatives.append(made)
    return specs[0] | {"alternatives": alternatives}


def _unchanged(text: str, time: timedelta | None) -> timedelta | None:
    """Return a learnt run time, or the known one in a text if it is close."""
    if time is None or not text or not _is_close(text, time):
        return time
    duration = parse_duration(text)
    return duration if isinstance(duration, timedelta) else time


def _pods(task: TaskSpec, count: int) -> Json:
    """The pods of a task in an alternative."""
    spec = task.template.get("spec") or {}
    made: Json = {"name": task.name, "pods": count, "requests": written(pod_requests(resources_of_json(spec)))}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    given = {"nodeSelector": spec.get("nodeSelector"), "nodeAffinity": affinity, "tolerations": spec.get("tolerations")}
    return made | {key: value for key, value in given.items() if value}


def run_times(job: BatchJob, learnt: timedelta | None) -> dict[str, str]:
    """The annotations with the expected run times of the job; ``learnt`` from jobs of the same name."""
    seconds = job.spec.active_deadline_seconds
    walltime = timedelta(seconds=seconds) if seconds is not None else None
    given = zip(RUN_TIMES, (walltime, job.spec.running_estimate, learnt), strict=True)
    return {key: format_duration(time) for key, time in given if time}


def annotation_changes(job: BatchJob, learnt: timedelta | None, existing: PodGroup, *, rejected: bool) -> Json:
    """The merge patch of these annotations; empty if none changed, a learnt run time by a fifth or less.

    ``rejected``: the API server rejects pods that the job needs to start.
    """
    new = run_times(job, learnt) | ({names.PODS_REJECTED: "true"} if rejected else {})
    old = {key: value for key, value in existing.metadata.annotations.items() if key in _CHANGED}
    before = old.get(names.LEARNT_ESTIMATE)
    if learnt is None or (before is not None and _is_close(before, learnt)):
        new.pop(names.LEARNT_ESTIMATE, None)
        new |= {names.LEARNT_ESTIMATE: before} if before is not None else {}
    if new == old:
        return {}
    return {"metadata": {"annotations": dict.fromkeys(sorted(old.keys() - new.keys())) | new}}


def _is_close(text: str, time: timedelta) -> bool:
    try:
        duration = parse_duration(text)
    except ValueError:
        return False
    return isinstance(duration, timedelta) and abs(duration - time) <= duration / 5


def _topology(topology: NetworkTopology) -> Json:
    made: Json = {"mode": topology.mode}
    if topology.highest_tier_allowed is not None:
        made["highestTierAllowed"] = topology.highest_tier_allowed
    elif topology.highest_tier_name:
        made["highestTierName"] = topology.highest_tier_name
    return made


def _sub_group(task: TaskSpec) -> Json:
    assert task.partition_policy is not None
    made: Json = {
        "name": task.name,
        "subGroupSize": task.partition_policy.partition_size,
        "minSubGroups": task.partition_policy.min_partitions,
        "labelSelector": {"matchLabels": {names.TASK_SPEC: task.name}},
        "matchLabelKeys": [names.PARTITION_ID],
    }
    if task.partition_policy.network_topology:
        made["networkTopology"] = _topology(task.partition_policy.network_topology)
    return made


def changes(desired: Json, existing: PodGroup) -> Json:
    """The merge patch of the spec that brings an existing PodGroup to what is desired; empty if nothing differs."""
    patch = spec_changes(desired, existing, _UPDATED)
    return {"spec": patch} if patch else {}


def spec_changes(desired: Json, existing: PodGroup, keys: Iterable[str]) -> Json:
    """The merge patch of these fields from the spec of a PodGroup to the desired one."""
    new = msgspec.to_builtins(msgspec.convert({"metadata": {}, "spec": desired}, PodGroup).spec)
    old, patch = msgspec.to_builtins(existing.spec), Json()
    for key in keys:
        after, before = new.get(key), old.get(key)
        if (exact(after) != exact(before)) if key == "minResources" else after != before:
            value = patch[key] = desired.get(key)
            if isinstance(value, dict):  # a merge patch keeps unnamed keys: removed keys are set to null
                patch[key] = dict.fromkeys(sorted(set(before or ()) - set(value))) | value
    return patch


def written(amounts: Amounts) -> dict[str, str]:
    """Base units by quota name as a resource list."""
    return {name: text(_unit(name), units) for name, units in sorted(amounts.items())}


def exact(resources: Mapping[str, str | int | float] | None) -> Amounts:
    """A resource list with quota names as base units."""
    return {name: amount(_unit(name), given) for name, given in (resources or {}).items()}


def _unit(name: str) -> str:
    """The resource that a quota name counts: ``cpu`` for ``requests.cpu``."""
    return name.removeprefix("requests.").removeprefix("limits.")


def min_resources(tasks: Sequence[TaskSpec], member: int, priorities: Mapping[str, int]) -> Amounts:
    """Return the total requests of the pods that are needed to start, in base units.

    They are the ``member`` pods that matter most: those that the tasks demand before others, and of tasks with a higher
    priority class first.
    """
    total: Amounts = {}
    for task, count in _chosen(tasks, member, priorities):
        for name, units in pod_usage(task.template.get("spec") or {}).items():
            total[name] = total.get(name, 0) + units * count
    return {name: min(units, INT64_MAX) for name, units in total.items() if units}


def _chosen(tasks: Sequence[TaskSpec], member: int, priorities: Mapping[str, int]) -> Iterable[tuple[TaskSpec, int]]:
    def priority(task: TaskSpec) -> int:
        return -priorities.get((task.template.get("spec") or {}).get("priorityClassName", ""), 0)

    ordered = sorted(tasks, key=priority)
    demanded = {task.name: 0 for task in tasks}
    left = member
    if member >= sum(task.needed for task in tasks):
        for task in ordered:
            demanded[task.name] = min(task.needed, left)
            left -= demanded[task.name]
    for task in ordered:
        more = min(task.replicas - demanded[task.name], left)
        demanded[task.name] += more
        left -= more
    return [(task, demanded[task.name]) for task in tasks if demanded[task.name]]


def pod_usage(spec: Json) -> Amounts:
    """Return the usage that a ResourceQuota counts for a pod of this spec, in base units.

    Keys are the resource names, ``requests.<name>``, ``limits.<name>``, ``pods`` and ``count/pods``.
    """
    resources = resources_of_json(spec)
    usage: Amounts = {"pods": 1, "count/pods": 1}
    for name, units in pod_requests(resources).items():
        usage |= {f"requests.{name}": units, name: units}
    return usage | {f"limits.{name}": units for name, units in pod_limits(resources).items() if name in _NATIVE}
