"""The invariants that a configuration enforces, by the names that the checker uses (``plugin:part``).

A plugin that is switched off for a hook enforces nothing there. A plugin whose result counts in its own tier only enforces an
invariant only if no other tier can decide without it; protections (``unprotected``) are valid in every tier.
"""

from typing import Any

from volcanopy.scheduler.policy.config import PluginConfig, SchedulerConfig
from volcanopy.scheduler.policy.hook_table import HOOKS, implemented
from volcanopy.scheduler.policy.roles import Moment, Purpose, Quota, is_asked

_EVICTING = {
    "preempt": Purpose.PREEMPT,
    "reclaim": Purpose.RECLAIM,
    "shuffle": Purpose.SHUFFLE,
    "drain": Purpose.SHUFFLE,
}
_PARTS = {
    **{("gang", part): "enableJobReady" for part in ("ready", "broken", "members")},
    ("proportion", "flat"): "enabledAllocatable",
    **{(name, "reclaim"): Purpose.RECLAIM.value for name in ("proportion", "capacity", "cdp")},
    ("cdp", "preempt"): Purpose.PREEMPT.value,
    **{(name, part): purpose.value for name in ("conformance", "pdb") for part, purpose in _EVICTING.items()},
}
"""The parts with the switch that turns each off."""
_KNOWN_FILTERS = frozenset({"predicates", "proportion", "capacity", "drf", "reservation"})
"""The plugins that keep no pod of a running gang from a node but by what the checker knows."""


def enforced_invariants(config: SchedulerConfig) -> frozenset[str]:
    """Return the invariants in force, as ``plugin:part``."""
    entries = [entry for tier in config.tiers for entry in tier]
    parts = {
        f"{name}:{part}"
        for (name, part), switch in _PARTS.items()
        if any(entry.name == name and switch not in entry.off for entry in entries)
    }
    for entry in entries:
        if entry.name == "predicates" and _filters_traits(entry):
            parts.add("predicates:traits")
        if entry.name == "capacity" and "enabledAllocatable" not in entry.off:
            parts.add("capacity:tree" if entry.hierarchy else "capacity:flat")
        if entry.name == "pdb" and entry.arguments.model_dump()["unpreemptable"] is None:
            parts.add("pdb:everybody")  # else only budgets of administrators are checked
        if entry.name == "drf" and entry.hierarchy:
            parts |= {"drf:tree"} if "enabledAllocatable" not in entry.off else set()
            parts |= {"drf:reclaim"} if "enableReclaimable" not in entry.off else set()
    selects = [entry for entry in entries if _answers(entry, "allows") and Purpose.PREEMPT.value not in entry.off]
    preempting = [[entry.name for entry in tier if entry in selects] for tier in config.tiers]
    if any(preempting) and all("priority" in names for names in preempting if names):
        parts.add("priority:preempt")
    gates = ([entry.name for entry in tier if _admits(entry)] for tier in config.tiers)
    if "enqueue" in config.actions and "resourcequota" in next(filter(None, gates), ()):
        parts.add("resourcequota:enqueue")
    filters = {entry.name for entry in entries if _answers(entry, "reject") or _limits(entry)}
    if "gang:ready" in parts and "allocate" in config.actions and filters <= _KNOWN_FILTERS:
        parts.add("gang:first")
    return frozenset(parts)


def _answers(entry: PluginConfig, hook: str) -> bool:
    kind: Any = entry.plugin
    return hook in implemented(kind) and HOOKS[hook].switch not in entry.off


def _admits(entry: PluginConfig) -> bool:
    """Return whether a plugin, or the rules of its shares, may reject the admission of jobs."""
    has_rules = issubclass(entry.plugin, Quota) and Moment.ENQUEUE.switch not in entry.off
    return has_rules or is_asked(entry.plugin, entry.off, Moment.ENQUEUE)


def _limits(entry: PluginConfig) -> bool:
    """Return whether a plugin limits what queues are allocated."""
    kind: Any = entry.plugin
    limits = issubclass(kind, Quota) or "queue_verdict" in implemented(kind)
    return limits and "enabledAllocatable" not in entry.off


def _filters_traits(entry: PluginConfig) -> bool:
    """Return whether a predicates plugin filters by both labels and taints."""
    arguments = entry.arguments.model_dump()
    return "enablePredicate" not in entry.off and arguments["node_affinity"] and arguments["taint_toleration"]
