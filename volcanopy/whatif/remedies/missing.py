"""PriorityClasses that do not exist, and actions that the configuration lacks."""

import json
from collections.abc import Sequence
from dataclasses import replace

from volcanopy.api.model import Json
from volcanopy.scheduler.policy.config import PluginConfig, SchedulerConfig, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.changes import Configure, Create
from volcanopy.whatif.remedies.candidate import Candidate, Question, single
from volcanopy.whatif.target import pod_specs

_ACTIONS = ("enqueue", "allocate", "backfill")
_EVICTING = ("reclaim", "preempt")
_SHARES = frozenset({"capacity", "proportion"})


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
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 0,
    }


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
