"""Objects that do not exist, and actions that the configuration lacks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from volcanopy.api import names
from volcanopy.api.builtin import storage
from volcanopy.api.model import Json
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.policy.config import PluginConfig, SchedulerConfig, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.changes import Configure, Create, Step
from volcanopy.whatif.remedies.candidate import Candidate, Question, single
from volcanopy.whatif.target import pod_specs

_CLASS = "standard"
_ACTIONS = ("enqueue", "allocate", "backfill")
_EVICTING = ("reclaim", "preempt")
_SHARES = frozenset({"capacity", "proportion"})
_MOST_PODS = 64


def missing_objects(question: Question) -> Sequence[Candidate]:
    """Return a candidate that creates PriorityClasses, claims, StorageClasses, pods and the pod group that are missing."""
    groups = (_priority_classes(question), _claims(question), _pods(question), _pod_group(question))
    return [Candidate("create", tuple(single(steps, text) for steps, text in group)) for group in groups if group]


Creation = tuple[tuple[Step, ...], str]


def _priority_classes(question: Question) -> list[Creation]:
    cluster = question.cluster
    requested = {spec.get("priorityClassName") for spec in pod_specs(cluster, question.target)}
    if question.target.job:
        requested.add(cluster.objects["BatchJob", question.target.job]["spec"].get("priorityClassName"))
    classes = cluster.state.priority_classes
    return [
        (
            (
                Create(
                    {
                        "apiVersion": "scheduling.k8s.io/v1",
                        "kind": "PriorityClass",
                        "metadata": {"name": name},
                        "value": 0,
                    }
                ),
            ),
            f'create PriorityClass "{name}"',
        )
        for name in sorted(filter(None, requested))
        if name not in classes and not name.startswith("system-")
    ]


def _claims(question: Question) -> list[Creation]:
    """Return the creation of claims that pods name, and of the StorageClasses that claims name."""
    cluster, namespace = question.cluster, question.target.namespace
    creations: list[Creation] = []
    classes = cluster.of_kind("StorageClass")
    claims = {
        (volume.get("persistentVolumeClaim") or {}).get("claimName")
        for spec in pod_specs(cluster, question.target)
        for volume in spec.get("volumes") or ()
    }
    usable = _usable(classes.values())
    for name in sorted(filter(None, claims)):
        claim = cluster.objects.get(("PersistentVolumeClaim", f"{namespace}/{name}"))
        if claim is None:
            text = f'create PersistentVolumeClaim "{name}"'
            if usable is None:
                text = f'{text} and StorageClass "{_CLASS}"'
                steps: tuple[Step, ...] = (Create(_storage_class(_CLASS)), Create(_claim(namespace, name, _CLASS)))
            elif usable.waits:
                steps = (Create(_claim(namespace, name, usable.metadata.name)),)
            else:
                steps = _bound_claim(namespace, name, usable.metadata.name)
            creations.append((steps, text))
        elif (requested := claim.spec.storage_class_name) and requested not in classes and not claim.spec.volume_name:
            creations.append(((Create(_storage_class(requested)),), f'create StorageClass "{requested}"'))
    return creations


def _usable(classes: Iterable[storage.StorageClass]) -> storage.StorageClass | None:
    """Return a class whose volumes are provisioned: the default one if it is among them, else the first by name."""
    provisioned = [item for item in classes if item.provisions]
    return min(provisioned, key=lambda item: (not item.is_default, item.metadata.name), default=None)


def _bound_claim(namespace: str, name: str, storage_class: str) -> tuple[Step, ...]:
    """Return a claim with its volume, as the provisioner of a class with immediate binding creates it."""
    claim = _claim(namespace, name, storage_class)
    volume = f"pvc-{claim['metadata']['uid']}"
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "claimRef": {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]},
            "storageClassName": storage_class,
        },
        "status": {"phase": "Bound"},
    }
    bound = claim | {"spec": claim["spec"] | {"volumeName": volume}, "status": {"phase": "Bound"}}
    return (Create(body), Create(bound))


def _claim(namespace: str, name: str, storage_class: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"whatif-{namespace}-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


def _storage_class(name: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _pods(question: Question) -> list[Creation]:
    """Return the creation of the pods that a pod group without a BatchJob lacks, as copies of one that it has."""
    cluster, target = question.cluster, question.target
    group = cluster.group(target.group)
    pods = [pod for pod in cluster.pods_of_group(target.group) if not pod_fields.is_over(pod)]
    if target.job or group is None or not pods:
        return []
    lacking = {"": group.spec.min_member - len(pods)}
    for role, count in group.spec.min_task_member.items():
        lacking[role] = count - sum(pod_fields.role_of(pod) == role for pod in pods)
    steps: list[Step] = []
    for role in sorted(lacking, reverse=True):  # tasks first: their pods count for the group too
        templates = [pod for pod in pods if pod_fields.role_of(pod) == role] if role else pods
        count = lacking[role] - (len(steps) if not role else 0)
        if count > 0 and templates:
            template = cluster.body("Pod", templates[0].metadata.key)
            steps += [_pod_copy(template, f"{role}-{number}" if role else str(number)) for number in range(count)]
    text = f"create {len(steps)} more pod{'' if len(steps) == 1 else 's'}"
    return [(tuple(steps), text)] if 0 < len(steps) <= _MOST_PODS else []


def _pod_copy(body: Json, suffix: str) -> Create:
    metadata = body["metadata"]
    name = f"{metadata['name']}-new-{suffix}"
    fields = {key: value for key, value in metadata.items() if key != "deletionTimestamp"}
    spec = {key: value for key, value in body["spec"].items() if key not in {"nodeName", "schedulingGates"}}
    copy = {"metadata": fields | {"name": name, "uid": f"whatif-{name}"}, "spec": spec, "status": {"phase": "Pending"}}
    return Create(body | copy)


def _pod_group(question: Question) -> list[Creation]:
    cluster, target = question.cluster, question.target
    if target.job or cluster.group(target.group) is not None:
        return []
    body = {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": f"whatif-{target.name}"},
        "spec": {"minMember": 1, "queue": cluster.state.default_queue},
    }
    return [((Create(body),), f'create pod group "{target.name}"')]


def missing_actions(question: Question) -> Sequence[Candidate]:
    """Return a candidate that adds the actions that enqueue a job and place its pods."""
    actions = question.config.actions
    if set(_ACTIONS) <= set(actions):
        return []
    document = {"actions": ", ".join(dict.fromkeys((*_ACTIONS, *actions)))}
    text = f'set the actions of the scheduler configuration to "{document["actions"]}"'
    return [Candidate("actions", (single((_with_actions(document["actions"]),), text),))]


def evicting_actions(question: Question) -> Sequence[Candidate]:
    """Return a candidate for each missing action that evicts pods for others, with a plugin that computes fair shares.

    Reclaim evicts pods of other queues up to the fair share of the job's queue, preempt those of jobs of lower priority.
    """
    config = question.config
    if not question.cluster.state.tasks.rows or "allocate" not in config.actions:
        return []
    candidates = []
    spec = [queue.spec for queue in question.cluster.state.queues.values()]
    share = "capacity" if any(queue_spec.deserved for queue_spec in spec) else "proportion"
    for action in _EVICTING:
        parts = []
        if action == "reclaim" and share not in config.plugins and share in question.registry.plugins:
            text = f'add plugin "{share}" to the scheduler configuration'
            parts.append(single((_with_plugin(config, question.registry, share),), text))
        if action not in config.actions:
            place = config.actions.index("allocate") + 1
            actions = ", ".join((*config.actions[:place], action, *config.actions[place:]))
            parts.append(single((_with_actions(actions),), f'add action "{action}" to the scheduler configuration'))
        if parts:
            candidates.append(Candidate("actions", tuple(parts)))
    return candidates


def _with_actions(actions: str) -> Configure:
    names_of = tuple(actions.split(", "))
    return Configure(lambda config: replace(config, actions=names_of), {"actions": actions})


def _with_plugin(config: SchedulerConfig, registry: Registry, name: str) -> Configure:
    """Return the step that adds a plugin to the last tier; proportion and capacity exclude each other."""
    tiers = [[_entry(plugin) for plugin in tier if plugin.name not in _SHARES] for tier in config.tiers] or [[]]
    tiers[-1].append({"name": name})
    document: Json = {"tiers": [{"plugins": tier} for tier in tiers]}
    tiers_with_plugin = parse(json.dumps({"actions": "allocate", **document}), registry).tiers
    return Configure(lambda before: replace(before, tiers=tiers_with_plugin), document)


def _entry(plugin: PluginConfig) -> Json:
    """Return a plugin as the configuration file has it."""
    entry: Json = {"name": plugin.name} | dict.fromkeys(sorted(plugin.off), False)
    if plugin.hierarchy:
        entry["enableHierarchy"] = True
    arguments = plugin.arguments.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return entry | ({"arguments": arguments} if arguments else {})
