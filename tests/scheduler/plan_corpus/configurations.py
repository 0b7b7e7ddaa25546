"""The twelve configurations of the corpus: nine fixed ones, in which every plugin and action occurs, and three drawn by seed."""

import json
from functools import cache
from random import Random
from typing import Any

from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy_testing.notation import all_policies

Tiers = tuple[tuple[dict[str, Any], ...], ...]


def entry(name: str, *, hierarchy: bool = False, off: str = "", **arguments: Any) -> dict[str, Any]:
    """Return the entry of a plugin; ``off`` is a switch that is false."""
    result: dict[str, Any] = {"name": name}
    result |= {"enableHierarchy": True} if hierarchy else {}
    result |= {off: False} if off else {}
    return result | ({"arguments": arguments} if arguments else {})


def _named(*names: str) -> tuple[dict[str, Any], ...]:
    return tuple(entry(name) for name in names)


_FIRST = _named("priority", "gang", "conformance")
_NODES = _named("predicates", "nodeorder", "binpack")
_DENSE = {
    "targetThresholds": {"cpu": 60, "memory": 60, "pods": 60},
    "thresholds": {"cpu": 30, "memory": 30, "pods": 30},
}
_TELEMETRY = {
    "dontschedule": [{"measure": "cpu", "operator": "GreaterThan", "target": 60}],
    "scheduleonmetric": {"measure": "memory", "operator": "LessThan"},
    "unknown": "allow",
}

FIXED: dict[str, tuple[str, Tiers]] = {
    "evictions": (
        "enqueue, allocate, backfill, preempt, reclaim",
        (_FIRST, (*_named("overcommit", "drf", "proportion"), *_NODES)),
    ),
    "queue-tree": (
        "enqueue, reclaim, allocate, preempt, backfill",
        (
            (entry("priority"), entry("gang", off="enablePreemptable"), *_named("pdb", "cdp")),
            (entry("capacity", hierarchy=True, ancestorReclaimLevel=1), *_NODES, entry("resourcequota")),
        ),
    ),
    "gang-evictions": (
        "enqueue, allocate, gangpreempt, gangreclaim, stalegangeviction, backfill",
        (_FIRST, (*_named("capacity", "pdb", "drf", "network-topology-aware"), *_NODES)),
    ),
    "hierarchical-drf": (
        "enqueue, allocate, reclaim, preempt",
        (_FIRST, (entry("drf", hierarchy=True), entry("demand"), *_NODES)),
    ),
    "devices": (
        "enqueue, allocate, preempt, reclaim, backfill",
        (
            (*_named("priority", "gang"),),
            (
                *_named("proportion", "predicates", "nodeorder", "fragmentation", "numa-aware", "task-topology"),
                {
                    "name": "deviceshare",
                    "arguments": {"deviceshare.VGPUEnable": True, "deviceshare.ScheduleWeight": 10},
                },
            ),
        ),
    ),
    "shared-memory": (
        "enqueue, allocate, consolidate, backfill",
        (
            (entry("priority"), entry("gang"), entry("sla")),
            (
                *_named("capacity", "predicates"),
                entry("nodegroup", strict=False),
                {"name": "deviceshare", "arguments": {"deviceshare.GPUSharingEnable": True}},
                entry("resource-strategy-fit", resources={"cpu": {"type": "MostAllocated", "weight": 2}}),
                entry("reservation", after="0s", heads=2),
                entry("interference", label="app", slowdown={"a": {"a": 5, "b": 40}}, most=30),
            ),
        ),
    ),
    "time": (
        "enqueue, allocate, preempt, shuffle, backfill",
        (
            (
                entry("priority"),
                entry("gang"),
                {"name": "sla", "arguments": {"sla-waiting-time": "100h"}},
                entry("slowdown"),
            ),
            (
                *_named("overcommit", "proportion", "predicates", "nodeorder"),
                {"name": "tdm", "arguments": {"tdm.revocable-zone.rz": "08:00-20:00", "tdm.evict.period": "1m"}},
                entry("primetime", hours="00:00-12:00"),
                entry("rescheduling", interval="1m", strategies=[{"name": "lowNodeUtilization", "params": _DENSE}]),
                entry("reservation", after="1h"),
            ),
        ),
    ),
    "measures": (
        "allocate, shuffle, consolidate, reclaim",
        (
            (*_named("gang", "cdp", "conformance"),),
            (
                *_named("predicates", "capacity", "datalocality", "loadvariation"),
                entry("usage", thresholds={"cpu": 70, "mem": 70}),
                entry("energy", models={"a": {"idle": 100, "k1": 20, "k2": 0.02}}, label="zone"),
                entry("targetload", target=40),
                entry("telemetry", policies={"all": _TELEMETRY}, default="all"),
                entry("rescheduling", interval="1m"),
            ),
        ),
    ),
}
"""Actions and tiers by name, besides the default configuration."""

NAMES = ("default", *FIXED, "drawn-1", "drawn-2", "drawn-3")
"""The configurations in the order of the recorded hashes."""

_CHAINS = (
    "enqueue, allocate, backfill",
    "allocate, preempt, reclaim",
    "enqueue, reclaim, allocate, gangpreempt, backfill",
    "enqueue, allocate, consolidate, gangreclaim, shuffle",
    "allocate, enqueue, preempt, stalegangeviction, backfill",
    "enqueue, preempt, gangreclaim, allocate, consolidate",
)
_SWITCHES = ("enablePreemptable", "enableReclaimable", "enableJobOrder", "enableJobStarving", "enabledAllocatable")
_QUEUES = {"capacity", "proportion", "drf"}


def document(name: str, seed: int) -> str:
    """Return the text of a configuration; only the drawn ones depend on the seed."""
    if name == "default":
        return DEFAULT
    if name in FIXED:
        actions, tiers = FIXED[name]
        return json.dumps({"actions": actions, "tiers": [{"plugins": list(tier)} for tier in tiers]})
    return _drawn(Random(f"{name} {seed}"))


def config(name: str, seed: int) -> SchedulerConfig:
    """Return a configuration."""
    return parse(document(name, seed), all_policies()) if name.startswith("drawn") else _fixed(name)


@cache
def _fixed(name: str) -> SchedulerConfig:
    return parse(document(name, 0), all_policies())


def _drawn(rng: Random) -> str:
    """Return a configuration of random entries of the fixed ones, in random tiers and with random switches."""
    pool = {json.dumps(item, sort_keys=True): item for _, tiers in FIXED.values() for tier in tiers for item in tier}
    by_name: dict[str, list[dict[str, Any]]] = {}
    for item in pool.values():
        by_name.setdefault(item["name"], []).append(item)
    preferred = {"gang", "predicates", "priority"}
    names = [name for name in by_name if (rng.randrange(8) and name in preferred) or not rng.randrange(4)]
    quota = [name for name in names if name in _QUEUES]
    names = [name for name in names if name not in quota[1:]]
    rng.shuffle(names)
    tiers: list[list[dict[str, Any]]] = [[] for _ in range(rng.randint(1, 3))]
    for name in names:
        switches = {switch: False for switch in _SWITCHES if not rng.randrange(10)}
        rng.choice(tiers).append({**rng.choice(by_name[name]), **switches})
    return json.dumps({"actions": rng.choice(_CHAINS), "tiers": [{"plugins": tier} for tier in tiers]})
