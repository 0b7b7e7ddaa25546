"""PriorityClasses and volumes that do not exist, and actions that the configuration lacks."""

from collections.abc import Sequence
from dataclasses import replace

from volcanopy.api.builtin import pod_claims
from volcanopy.api.model import Json
from volcanopy.whatif.changes import Configure, Create
from volcanopy.whatif.new_claims import completed
from volcanopy.whatif.remedies.candidate import Candidate, Question, single
from volcanopy.whatif.target import pod_specs, waiting_pods

_ACTIONS = ("enqueue", "allocate", "backfill")
_EVICTING = ("reclaim", "preempt")


def missing_objects(question: Question) -> Sequence[Candidate]:
    """Return a candidate that creates the PriorityClasses that are missing."""
    cluster = question.cluster
    requested = {spec.get("priorityClassName") for spec in pod_specs(cluster, question.target)}
    if question.target.job:
        requested.add(cluster.objects["BatchJob", question.target.job]["spec"].get("priorityClassName"))
    classes = cluster.state.priority_classes
    missing = [name for name in requested if name and name not in classes and not name.startswith("system-")]
    parts = tuple(
        single((Create(_priority_class(name)),), f'create PriorityClass "{name}"') for name in sorted(missing)
    )
    return [Candidate("create", parts)] if parts else []


def _priority_class(name: str) -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 0}


def missing_volumes(question: Question) -> Sequence[Candidate]:
    """Return a candidate of the volumes that provisioners still have to make for claims that they bind at once."""
    cluster, target = question.cluster, question.target
    volumes = [volume for spec in pod_specs(cluster, target) for volume in spec.get("volumes") or ()]
    names = {claim["claimName"] for volume in volumes if (claim := volume.get("persistentVolumeClaim"))}
    claimed = {f"{target.namespace}/{name}" for name in names}
    claimed |= {claim.key for pod in waiting_pods(cluster, target) for claim in pod_claims.volumes(pod)}
    parts = []
    for key in sorted(claimed & cluster.keys.get("PersistentVolumeClaim", {}).keys()):
        bodies = completed(cluster, cluster.body("PersistentVolumeClaim", key))
        if len(bodies) > 1 and not cluster.objects["PersistentVolumeClaim", key].spec.volume_name:
            text = f'provisioning of a volume for PersistentVolumeClaim "{key.rpartition("/")[2]}"'
            parts.append(single(tuple(map(Create, bodies)), text))
    return [Candidate("volume", tuple(parts))] if parts else []


def missing_actions(question: Question) -> Sequence[Candidate]:
    """Return a candidate that adds the actions that enqueue a job and place its pods."""
    actions = question.config.actions
    if set(_ACTIONS) <= set(actions):
        return []
    document = {"actions": ", ".join(dict.fromkeys((*_ACTIONS, *actions)))}
    text = f'set the actions of the scheduler configuration to "{document["actions"]}"'
    return [Candidate("actions", (single((_with_actions(document["actions"]),), text),))]


def evicting_actions(question: Question) -> Sequence[Candidate]:
    """Return a candidate for each missing action that evicts pods for others.

    Reclaim evicts pods of other queues up to the fair share of the job's queue, preempt those of jobs of lower priority.
    """
    configured = question.config.actions
    if not question.cluster.state.tasks.rows or "allocate" not in configured:
        return []
    candidates = []
    place = configured.index("allocate") + 1
    for action in _EVICTING:
        if action not in configured:
            actions = ", ".join((*configured[:place], action, *configured[place:]))
            part = single((_with_actions(actions),), f'add action "{action}" to the scheduler configuration')
            candidates.append(Candidate("actions", (part,)))
    return candidates


def _with_actions(actions: str) -> Configure:
    names_of = tuple(actions.split(", "))
    return Configure(lambda config: replace(config, actions=names_of), {"actions": actions})
