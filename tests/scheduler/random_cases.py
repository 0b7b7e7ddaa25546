"""Random configurations as text, so that failures are readable, and random worlds with them.

A plugin is added to the configurations by a line in ``ARGUMENTS``; a plugin that requires objects which these worlds lack is in
``EXCLUDED``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy_testing import random_worlds
from volcanopy_testing.notation import all_policies

ZONE = "topology.kubernetes.io/zone"

RandomArguments = Callable[[Random], dict[str, Any]]


def _nothing(_: Random) -> dict[str, Any]:
    return {}


def _number(key: str, most: int) -> RandomArguments:
    return lambda rng: {key: rng.randint(0, most)} if rng.randint(0, 1) else {}


def _tdm(rng: Random) -> dict[str, Any]:
    hours = rng.choice(["00:00-00:00", "08:00-20:00", "22:00-06:00"])
    return {"tdm.revocable-zone.rz": hours, "tdm.evict.period": "1m"}


def _usage(rng: Random) -> dict[str, Any]:
    return {"thresholds": {"cpu": rng.choice([50, 80]), "mem": rng.choice([50, 80])}}


def _rescheduling(rng: Random) -> dict[str, Any]:
    return {"interval": rng.choice(["1m", "5m"])}


def _strategy(rng: Random) -> dict[str, Any]:
    kind = rng.choice(["LeastAllocated", "MostAllocated"])
    return {"resources": {"cpu": {"type": kind, "weight": rng.randint(1, 3)}}}


def _telemetry(rng: Random) -> dict[str, Any]:
    rule = {"measure": "cpu", "operator": "GreaterThan", "target": rng.choice([30, 70])}
    likes = {"measure": "memory", "operator": rng.choice(["LessThan", "GreaterThan"])}
    policy = {"dontschedule": [rule], "scheduleonmetric": likes, "unknown": rng.choice(["allow", "reject"])}
    return {"policies": {"all": policy}, "default": "all"}


ARGUMENTS: Mapping[str, RandomArguments] = {
    "binpack": _number("binpack.cpu", 5),
    "capacity": _number("ancestorReclaimLevel", 2),
    "cdp": _nothing,
    "conformance": _nothing,
    "datalocality": _nothing,
    "demand": lambda rng: {"policy": rng.choice(["demand", "demand-drf"])},
    "deviceshare": _nothing,
    "drf": _nothing,
    "energy": lambda rng: {"models": {"a": {"idle": rng.choice([0, 100]), "k1": 20, "k2": 0.02}}, "label": ZONE},
    "fragmentation": lambda rng: {"exclusive": bool(rng.randint(0, 1))},
    "gang": _nothing,
    "interference": lambda rng: {"label": "app", "slowdown": {"a": {"a": 5, "b": 40}}, "most": rng.choice([0, 30])},
    "loadvariation": _number("safeVarianceMargin", 2),
    "network-topology-aware": _nothing,
    "nodegroup": lambda rng: {"strict": bool(rng.randint(0, 1))},
    "nodeorder": _number("mostrequested.weight", 2),
    "numa-aware": _nothing,
    "overcommit": lambda rng: {"overcommit-factor": rng.choice([1, 1.2, 2])},
    "pdb": _nothing,
    "predicates": _nothing,
    "primetime": lambda rng: {
        "primeOrder": rng.choice(["shortest", "largest"]),
        "hours": rng.choice(["00:00-12:00", "12:00-00:00"]),
    },
    "priority": _nothing,
    "proportion": _nothing,
    "rescheduling": _rescheduling,
    "reservation": lambda rng: {"after": rng.choice(["0s", "1h", "48h"]), "heads": rng.randint(1, 2)},
    "resource-strategy-fit": _strategy,
    "resourcequota": _nothing,
    "slowdown": lambda rng: {"longestWait": rng.choice(["1m", "168h"])},
    "sla": lambda rng: {"sla-waiting-time": rng.choice(["1m", "100h"])},
    "targetload": lambda rng: {"target": rng.choice([20, 60])},
    "telemetry": _telemetry,
    "task-topology": _number("task-topology.weight", 3),
    "tdm": _tdm,
    "usage": _usage,
}
"""The plugins of random configurations, each with its random arguments."""

EXCLUDED: Mapping[str, str] = {
    "extender": "its answers come from a program outside",
}
"""The plugins that are left out, each with the reason."""

_SWITCHES = ("enablePreemptable", "enableReclaimable", "enableJobOrder", "enableJobStarving", "enabledAllocatable")
_PREFERRED = ("gang", "predicates", "priority", "conformance")


@dataclass(frozen=True)
class Case:
    """A world and a configuration, both as text."""

    world: str
    document: str

    def config(self, registry: Registry | None = None) -> SchedulerConfig:
        """Return the parsed configuration."""
        return parse(self.document, registry or all_policies())

    def __str__(self) -> str:
        return f"{self.world}\n--\n{self.document}"


def case(rng: Random) -> Case:
    """A random world with a random configuration."""
    return Case(random_worlds.world(rng), document(rng))


def document(rng: Random) -> str:
    """A random configuration file: actions in an order that makes sense or none, plugins in up to three tiers."""
    tiers: list[list[dict[str, Any]]] = [[] for _ in range(rng.randint(1, 3))]
    named = [name for name in ARGUMENTS if _takes_part(name, rng)]
    if "proportion" in named and "capacity" in named:
        named.remove(rng.choice(["proportion", "capacity"]))
    rng.shuffle(named)
    for name in named:
        entry: dict[str, Any] = {"name": name}
        for switch in _SWITCHES:
            if not rng.randint(0, 9):
                entry[switch] = False
        if name == "capacity" or (name == "drf" and "proportion" not in named):
            entry["enableHierarchy"] = bool(rng.randint(0, 1))
        arguments = ARGUMENTS[name](rng)
        if arguments:
            entry["arguments"] = arguments
        rng.choice(tiers).append(entry)
    return json.dumps({"actions": ", ".join(chain(rng)), "tiers": [{"plugins": tier} for tier in tiers]})


def chain(rng: Random) -> list[str]:
    """Random actions, allocate always among them; enqueue, if there, mostly first."""
    rest = [
        name for name in sorted(all_policies().actions) if name not in {"enqueue", "allocate"} and rng.randint(0, 1)
    ]
    rest.append("allocate")
    rng.shuffle(rest)
    if rng.randint(0, 4):
        rest.insert(0 if rng.randint(0, 4) else rng.randint(0, len(rest)), "enqueue")
    return rest


def _takes_part(name: str, rng: Random) -> bool:
    return bool(rng.randint(0, 7) if name in _PREFERRED else rng.randint(0, 2) == 0)


EVICTING_CHAINS = (
    "enqueue, allocate, preempt, reclaim, backfill",
    "enqueue, allocate, backfill, reclaim, preempt",
    "enqueue, allocate, gangpreempt, gangreclaim, backfill",
    "enqueue, reclaim, allocate, preempt, backfill",
)


def evicting_config(dice: Random) -> SchedulerConfig:
    """Volcano's tiers, with or without gang among those who name victims, with shares by weight or by capacity."""
    gang: dict[str, object] = {"name": "gang"}
    if dice.randint(0, 1):
        gang |= {"enablePreemptable": False, "enableReclaimable": False}
    first = [{"name": "priority"}, gang, {"name": "conformance"}]
    second = [
        {"name": name}
        for name in ("overcommit", "drf", "predicates", dice.choice(["proportion", "capacity"]), "nodeorder")
    ]
    document = {"actions": dice.choice(EVICTING_CHAINS), "tiers": [{"plugins": first}, {"plugins": second}]}
    return parse(json.dumps(document), builtin())
