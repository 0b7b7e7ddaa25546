"""What a configuration promises: which plugins' promises no action can get around, as the oracle in ``check`` names them.

A plugin that is switched off for something promises nothing about it. Whoever only has a say in its own tier promises
only if no other tier can decide without it; protections (``preemptable_at_all`` and ``reclaimable_at_all``) hold in every tier.
"""

from volcanopy.scheduler.framework.config import PluginConfig, SchedulerConfig
from volcanopy.scheduler.framework.plugin import HOOKS, Plugin

_PARTS = {
    ("gang", "ready"): "enableJobReady",
    ("proportion", "flat"): "enabledAllocatable",
    ("proportion", "reclaim"): "enableReclaimable",
    ("capacity", "reclaim"): "enableReclaimable",
    ("conformance", "preempt"): "enablePreemptable",
    ("conformance", "reclaim"): "enableReclaimable",
    ("conformance", "shuffle"): "enabledVictim",
    ("conformance", "drain"): "enabledVictim",
    ("pdb", "preempt"): "enablePreemptable",
    ("pdb", "reclaim"): "enableReclaimable",
    ("pdb", "shuffle"): "enabledVictim",
    ("pdb", "drain"): "enabledVictim",
    ("cdp", "preempt"): "enablePreemptable",
    ("cdp", "reclaim"): "enableReclaimable",
}
"""The parts of promises with the switch that takes each away."""


def promises(config: SchedulerConfig) -> frozenset[str]:
    """The promises in force, as ``plugin:part``."""
    entries = [entry for tier in config.tiers for entry in tier]
    found = {
        f"{name}:{part}"
        for (name, part), switch in _PARTS.items()
        if any(entry.name == name and switch not in entry.off for entry in entries)
    }
    for entry in entries:
        if entry.name == "capacity" and "enabledAllocatable" not in entry.off:
            found.add("capacity:tree" if entry.hierarchy else "capacity:flat")
        if entry.name == "drf" and entry.hierarchy:
            found |= {"drf:tree"} if "enabledAllocatable" not in entry.off else set()
            found |= {"drf:reclaim"} if "enableReclaimable" not in entry.off else set()
    answering = [tier for tier in config.tiers if any(_answers(entry, "preemptable") for entry in tier)]
    if answering and all(_has(tier, "priority", "preemptable") for tier in answering):
        found.add("priority:preempt")
    voting = next((tier for tier in config.tiers if any(_answers(entry, "job_enqueueable") for entry in tier)), ())
    if "enqueue" in config.actions and _has(voting, "resourcequota", "job_enqueueable"):
        found.add("resourcequota:enqueue")
    return frozenset(found)


def _has(tier: tuple[PluginConfig, ...], name: str, hook: str) -> bool:
    return any(entry.name == name and _answers(entry, hook) for entry in tier)


def _answers(entry: PluginConfig, hook: str) -> bool:
    return getattr(entry.plugin, hook) is not getattr(Plugin, hook) and HOOKS[hook].switch not in entry.off
