"""The job of a question: its objects, and edits of its pods, its minimum and its pod group."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from volcanopy.api import core, names, quantity
from volcanopy.api.alternatives import merged
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.api.decoding import convert
from volcanopy.api.model import Json
from volcanopy.scheduler.model import pod_fields
from volcanopy.whatif.changes import Delete, Edit, Steps
from volcanopy.whatif.cluster import Cluster, Key
from volcanopy.whatif.controllers import read_job, with_runtime_class
from volcanopy.whatif.kinds import phase_of

EditSpec = Callable[[Json], Json]
_SUSPENDED = frozenset({"", "Pending", "Aborting", "Aborted"})
"""The phases of a job that its spec suspends: before the job controller handled it, and afterwards."""


@dataclass(frozen=True)
class Target:
    """A job: ``group`` is the key of its pod group, ``job`` that of its BatchJob, empty without one."""

    group: str
    job: str = ""
    owner: str = ""
    """The name of the BatchJob that owns the pod group, whether it is known or not."""

    @property
    def name(self) -> str:
        """The name that users know."""
        return self.owner or (self.job or self.group).rpartition("/")[2]

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.group.partition("/")[0]


def targets(cluster: Cluster) -> list[Target]:
    """Return the jobs that have not ended and whose gang has not started, ordered by group."""
    waiting = {
        key: Target(key, _job_of(cluster, group), owner_of(group))
        for key, group in cluster.of_kind("PodGroup").items()
        if _waits(cluster, key, group)
    }
    for key, body in cluster.of_kind("BatchJob").items():
        group = f"{key}-{body['metadata'].get('uid', '')}"
        if group not in cluster.keys.get("PodGroup", {}) and phase_of(body) in {"", "Pending"}:
            waiting[group] = Target(group, key)
    for key in sorted(cluster.members.keys() - cluster.keys.get("PodGroup", {}).keys()):
        if any(not pod.spec.node_name and _is_scheduled(cluster, pod) for pod in cluster.pods_of_group(key)):
            waiting.setdefault(key, Target(key))
    return [waiting[key] for key in sorted(waiting)]


def suspended_jobs(cluster: Cluster) -> list[Target]:
    """Return the jobs that their spec suspends, ordered by group."""
    groups = (
        Target(f"{key}-{body['metadata'].get('uid', '')}", key)
        for key, body in cluster.of_kind("BatchJob").items()
        if body["spec"].get("suspend") and phase_of(body) in _SUSPENDED
    )
    return sorted(groups, key=lambda target: target.group)


def is_suspended(cluster: Cluster, target: Target) -> bool:
    """Whether the spec of a job suspends it."""
    return bool(target.job) and bool(cluster.objects["BatchJob", target.job]["spec"].get("suspend"))


def _waits(cluster: Cluster, key: str, group: core.PodGroup) -> bool:
    if group.metadata.deletion_timestamp is not None or group.status.phase == "Completed" or cluster.is_started(key):
        return False
    pods = cluster.pods_of_group(key)
    return not pods or any(not pod_fields.is_over(pod) and not pod.spec.node_name for pod in pods)


def _job_of(cluster: Cluster, group: core.PodGroup) -> str:
    key = f"{group.metadata.namespace}/{owner_of(group)}"
    return key if ("BatchJob", key) in cluster.objects else ""


def owner_of(group: core.PodGroup) -> str:
    """Return the name of the job that owns a pod group, empty without one."""
    return next((owner.name for owner in group.metadata.owner_references if owner.kind == names.JOB_KIND), "")


def _is_scheduled(cluster: Cluster, pod: core.Pod) -> bool:
    return pod.spec.scheduler_name in cluster.state.scheduler_names and not pod_fields.is_over(pod)


def foreign_scheduler(cluster: Cluster, target: Target) -> str:
    """Return the scheduler of a job's pods, if that is another one than volcanopy; else an empty text."""
    scheduler_names = cluster.state.scheduler_names
    if target.job:
        spec = cluster.objects["BatchJob", target.job]["spec"]
        foreign_names = [
            template.get("schedulerName") or spec.get("schedulerName") or "" for template in pod_specs(cluster, target)
        ]
    else:
        foreign_names = [pod.spec.scheduler_name for pod in cluster.pods_of_group(target.group)]
    return next((name for name in foreign_names if name and name not in scheduler_names), "")


def queue_of(cluster: Cluster, target: Target) -> str:
    """Return the name of a job's queue."""
    group = cluster.group(target.group)
    if group is not None:
        return group.spec.queue or cluster.state.default_queue
    if target.job:
        return str(cluster.objects["BatchJob", target.job]["spec"].get("queue") or cluster.state.default_queue)
    return cluster.state.default_queue


def minimum_of(cluster: Cluster, target: Target) -> int:
    """Return how many pods of a job must start together."""
    group = cluster.group(target.group)
    if group is not None:
        return max(group.spec.min_member, 1)
    return max(read_job(cluster.objects["BatchJob", target.job]).spec.needed, 1) if target.job else 1


def pod_specs(cluster: Cluster, target: Target) -> list[Json]:
    """Return the specs of a job's pods, as JSON: those of its templates, or of its waiting pods.

    With alternatives they are those of the selected one, or of the first.
    """
    if target.job:
        tasks = _effective(cluster.objects["BatchJob", target.job]).get("tasks") or []
        specs = [with_runtime_class(cluster, (task.get("template") or {}).get("spec") or {}) for task in tasks]
        return [spec for task, spec in zip(tasks, specs, strict=True) for _ in range(task.get("replicas", 1))]
    return [cluster.body("Pod", pod.metadata.key).get("spec") or {} for pod in waiting_pods(cluster, target)]


def _effective(body: Json) -> Json:
    """Return the spec of a BatchJob with an alternative merged into it, if it has any."""
    spec: Json = body["spec"]
    alternatives = spec.get("alternatives") or []
    selected = ((body.get("status") or {}).get("alternative") or {}).get("name")
    for alternative in sorted(alternatives, key=lambda entry: entry.get("name") != selected)[:1]:
        return spec | {"tasks": merged(spec.get("tasks") or [], alternative.get("tasks") or [])}
    return spec


def waiting_pods(cluster: Cluster, target: Target) -> list[core.Pod]:
    """Return the pods of a job that have no node."""
    return [
        pod for pod in cluster.pods_of_group(target.group) if not pod.spec.node_name and not pod_fields.is_over(pod)
    ]


def requests_of(cluster: Cluster, target: Target, *, overhead: bool = True) -> list[dict[str, int]]:
    """Return the requests of each of a job's pods, in base units, with or without their overhead."""
    if target.job:
        specs = [convert(spec, core.PodSpec) for spec in pod_specs(cluster, target)]
    else:
        specs = [pod.spec for pod in waiting_pods(cluster, target)]
    return [pod_requests(resources_of(spec if overhead else replace(spec, overhead={}))) for spec in specs]


# Edits


def edit_pods(cluster: Cluster, target: Target, change: EditSpec) -> Steps:
    """Return the steps that change the spec of each waiting pod; a BatchJob is created again with changed templates."""
    if target.job:
        return edit_job(
            cluster, target, lambda spec: spec | {"tasks": [with_spec(task, change) for task in spec["tasks"]]}
        )

    def edited(body: Json) -> Json:
        return body | {"spec": change(body.get("spec") or {})}

    return tuple(Edit("Pod", pod.metadata.key, edited) for pod in waiting_pods(cluster, target))


def with_spec(task: Json, change: EditSpec) -> Json:
    """Return a task with a changed spec of its pods."""
    template = task.get("template") or {}
    return task | {"template": template | {"spec": change(template.get("spec") or {})}}


def edit_job(cluster: Cluster, target: Target, change: EditSpec) -> Steps:
    """Return the steps that replace a BatchJob by a new one of the same name."""

    def edited(body: Json) -> Json:
        body.pop("status", None)
        return body | {"spec": change(body["spec"])}

    pods = (Delete("Pod", pod.metadata.key) for pod in cluster.pods_of_group(target.group))
    return (*pods, Delete("PodGroup", target.group), Edit("BatchJob", target.job, edited))


def edit_group(cluster: Cluster, target: Target, of_job: EditSpec, of_group: EditSpec) -> Steps:
    """Return the steps that change the spec of a BatchJob, or of a pod group without one."""
    if target.job:
        return edit_job(cluster, target, of_job)
    return (Edit("PodGroup", target.group, lambda body: body | {"spec": of_group(body.get("spec") or {})}),)


def with_minimum(cluster: Cluster, target: Target, minimum: int) -> Steps:
    """Return the steps that let a job start with fewer pods."""
    before = minimum_of(cluster, target)

    def of_job(spec: Json) -> Json:
        tasks, excess = [], sum(_needed(task) for task in spec["tasks"]) - minimum
        for task in spec["tasks"]:
            less = min(max(excess, 0), max(_needed(task) - 1, 0))
            excess -= less
            tasks.append(task | {"minAvailable": _needed(task) - less} if less else task)
        return spec | {"tasks": tasks, "minAvailable": minimum}

    def of_group(spec: Json) -> Json:
        spec["minMember"] = minimum
        roles, excess = dict(spec.get("minTaskMember") or {}), sum((spec.get("minTaskMember") or {}).values()) - minimum
        for role in sorted(roles):
            less = min(max(excess, 0), roles[role])
            roles[role] -= less
            excess -= less
        if roles:
            spec["minTaskMember"] = {role: count for role, count in roles.items() if count}
        if spec.get("minResources"):
            spec["minResources"] = scaled(spec["minResources"], dict.fromkeys(spec["minResources"], (minimum, before)))
        return spec

    return edit_group(cluster, target, of_job, of_group)


def _needed(task: Mapping[str, Any]) -> int:
    return int(task.get("minAvailable") or task.get("replicas", 1))


def scaled(resources: Mapping[str, Any], ratios: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Return a resource list with some of its amounts multiplied by a ratio, rounded down."""
    result = {}
    for name, amount in resources.items():
        unit = name.removeprefix("requests.").removeprefix("limits.")
        units = quantity.amount(unit, amount)
        if name in ratios:
            part, whole = ratios[name]
            units = units * part // whole if whole else units
        result[name] = quantity.text(unit, units)
    return result


def with_requests_up_to(cluster: Cluster, target: Target, resource: str, most: int) -> Steps:
    """Return the steps after which no waiting pod of a job requests more than ``most`` base units of a resource."""
    requests = [request.get(resource, 0) for request in requests_of(cluster, target, overhead=False)]
    before, after = sum(requests), sum(min(units, most) for units in requests)
    steps = edit_pods(cluster, target, lambda spec: capped(spec, resource, most))
    group = cluster.group(target.group)
    if target.job or group is None or not group.spec.min_resources:
        return steps
    ratios = dict.fromkeys((resource, f"requests.{resource}", f"limits.{resource}"), (after, before))

    def smaller(body: Json) -> Json:
        return body | {"spec": body["spec"] | {"minResources": scaled(body["spec"]["minResources"], ratios)}}

    return (*steps, Edit("PodGroup", target.group, smaller))


def capped(spec: Json, resource: str, most: int) -> Json:
    """Return a pod spec whose containers together request at most ``most`` base units of a resource."""
    containers = spec.get("containers") or []
    total = sum(_requested(container, resource) for container in containers)
    result = dict(spec)
    if total > most:
        result["containers"] = [
            _capped(item, resource, _requested(item, resource) * most // total) for item in containers
        ]
    if inits := spec.get("initContainers"):
        result["initContainers"] = [_capped(item, resource, most) for item in inits]
    if spec.get("resources"):
        result["resources"] = _capped(spec, resource, most)["resources"]
    return result


def _requested(container: Json, resource: str) -> int:
    resources = container.get("resources") or {}
    amount = (resources.get("requests") or {}).get(resource, (resources.get("limits") or {}).get(resource, 0))
    return quantity.amount(resource, amount)


def _capped(container: Json, resource: str, most: int) -> Json:
    """Return a container that requests at most ``most``. A limit changes only where it is the request, too."""
    resources = dict(container.get("resources") or {})
    requested = _requested(container, resource)
    for kind in ("requests", "limits"):
        amounts = resources.get(kind) or {}
        if resource in amounts and most < quantity.amount(resource, amounts[resource]) == requested:
            resources[kind] = amounts | {resource: quantity.text(resource, most)}
    return container | {"resources": resources}


def is_of_job(key: Key, item: object) -> bool:
    """Return whether an object belongs to a job, or is a pod that runs without one."""
    if isinstance(item, core.Pod):
        return bool(pod_fields.job_key(item) or item.spec.node_name)
    return key[0] in {"PodGroup", "BatchJob"}


def objects_of(cluster: Cluster, target: Target) -> list[Key]:
    """Return the keys of the objects of a job that exist."""
    keys = [("BatchJob", target.job), ("PodGroup", target.group)]
    keys += [("Pod", name) for name in cluster.members.get(target.group, ())]
    return [key for key in keys if key in cluster.objects]


def jobs_and_pods(cluster: Cluster) -> Iterable[tuple[str, str, str, str, tuple[Delete, ...]]]:
    """Yield the jobs and the pods without a group, each with its group, kind, name, queue and the steps that remove it."""
    groups = cluster.keys.get("PodGroup", {}).keys() | cluster.members.keys()
    for key in sorted(groups):
        group = cluster.group(key)
        if group is not None and group.status.phase == "Completed" and key not in cluster.members:
            continue
        job = _job_of(cluster, group) if group is not None else ""
        pods = (Delete("Pod", pod) for pod in sorted(cluster.members.get(key, ())))
        name = owner_of(group) if group is not None else ""
        queue = group.spec.queue or cluster.state.default_queue if group is not None else ""
        owner = f"{key.partition('/')[0]}/{name}" if name else key
        yield key, "job", owner, queue, (*((Delete("BatchJob", job),) if job else ()), *pods, Delete("PodGroup", key))
    for key, pod in cluster.of_kind("Pod").items():
        if not pod_fields.job_key(pod) and pod.spec.node_name and not pod_fields.is_over(pod):
            yield "", "pod", key, "", (Delete("Pod", key),)
