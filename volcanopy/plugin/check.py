"""A test kit for plugins: it runs one over many cluster states and compares all that it does with the contract.

In a test of a plugin::

    from volcanopy.plugin import check

    def test_the_plugin_keeps_the_contract() -> None:
        check.check(Cheapest, {"cheapest.weight": 5})

1. The class: unknown names, wrong signatures and declarations (:mod:`volcanopy.scheduler.policy.definition`).
2. Every result of every hook: type, shape, numbers, candidates (:mod:`volcanopy.scheduler.policy.answers`).
3. What the plugin declares about its results for nodes: a placement changes no others, tasks with one key have the same. Keys of
   jobs: each depends on its own job alone, and is the same for one row as for all.
4. The plan: the same again for the same snapshot, and the same decisions where no result is cached.
"""

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from volcanopy.plugin.scope_check import scope_faults
from volcanopy.plugin.uncached import schedule_uncached
from volcanopy.scheduler.core import open_session, run, schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.policy import definition
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Plugin
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.testing import eviction_worlds, random_worlds
from volcanopy.testing.notation import all_policies, snapshot

STATES = 20
CHAINS = (
    "enqueue, allocate, backfill, preempt, reclaim",
    "enqueue, allocate, gangpreempt, gangreclaim, shuffle",
    "enqueue, reclaim, allocate, consolidate",
)
"""The actions of the configurations, which alternate."""
BESIDE = ("gang", "priority", "predicates", "proportion", "nodeorder")
"""The plugins of the second tier, besides the checked one in the first."""


def check(plugin: type[Plugin[Any]], arguments: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Raise PluginError with all faults of a plugin; the options are those of :func:`faults`."""
    texts = faults(plugin, arguments, **options)
    if texts:
        raise PluginError("\n".join(texts))


def faults(
    plugin: type[Plugin[Any]],
    arguments: Mapping[str, Any] | None = None,
    *,
    states: Iterable[str] | None = None,
    hierarchy: bool = False,
) -> list[str]:
    """Return the faults of a plugin with these arguments, one sentence each, with a cluster state where one is needed.

    ``states`` are cluster states in the notation of :mod:`volcanopy.testing.notation`, for a plugin that needs what random ones
    lack; ``hierarchy`` is the switch ``enableHierarchy``.
    """
    texts = [f"plugin {getattr(plugin, 'name', plugin)!r} {text}" for text in definition.faults(plugin)]
    if texts:
        return texts
    if states is None:
        generators = (random_worlds.world, eviction_worlds.world)
        states = [generators[seed % 2](Random(seed)) for seed in range(STATES)]
    for number, state in enumerate(states):
        try:
            texts = list(dict.fromkeys(_faults_of_state(plugin, dict(arguments or {}), hierarchy, state, number)))
        except PluginError as error:
            texts = [str(error)]
        if texts:
            return [*texts, f"in the cluster state:\n{state}"]
    return []


def _faults_of_state(
    plugin: type[Plugin[Any]], arguments: dict[str, Any], hierarchy: bool, state: str, number: int
) -> Iterable[str]:
    entry = {"name": plugin.name, "arguments": arguments} | ({"enableHierarchy": True} if hierarchy else {})
    ours = all_policies()
    registry = Registry({**ours.plugins, plugin.name: plugin}, ours.actions)
    config = _config(entry, CHAINS[number % len(CHAINS)], registry)
    seen = snapshot(state)
    session = open_session(seen, config)
    session.hooks.__class__ = _CheckedHooks
    plan = run(session, registry.actions)
    if decisions(schedule(seen, config, registry)) != decisions(plan):
        yield f"plugin {plugin.name!r} leads to another plan for the same cluster state: it reads a clock, chance or its history"
    uncached = schedule_uncached(seen, config, registry.actions)
    difference = set(decisions(uncached)) ^ set(decisions(plan))
    if difference:
        yield (
            f"plugin {plugin.name!r} leads to another plan where no result is cached: "
            f"{'; '.join(sorted(difference)[:4])}"
        )
    yield from scope_faults(seen, _config(entry, "allocate", registry, beside=()), plugin, Random(number))


def decisions(plan: Plan) -> list[str]:
    """Return what a plan decides, without messages."""
    lines = [f"{effect} {dict(getattr(effect, 'annotations', {}))}" for effect in plan.of(Bind, Evict, Nominate)]
    return lines + [f"podgroup {effect.pod_group} {effect.phase}" for effect in plan.of(SetPodGroup)]


def _config(entry: dict[str, Any], actions: str, registry: Registry, beside: Iterable[str] = BESIDE) -> SchedulerConfig:
    is_quota = entry["name"] in {"capacity", "drf"}
    others = [{"name": name} for name in beside if name != entry["name"] and not (is_quota and name == "proportion")]
    document = {"actions": actions, "tiers": [{"plugins": [entry]}, {"plugins": others}]}
    return parse(json.dumps(document), registry)


class _CheckedHooks(Hooks):
    """The hooks of a session in which every result of every plugin is compared with the contract."""

    checks_all = True
