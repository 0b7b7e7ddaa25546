"""Random worlds and configurations as text, so that failures are readable.

They are generated from a :class:`random.Random`, by hypothesis (which shrinks them) or from a seed. A plugin is added to the
configurations by a line in ``ARGUMENTS``; a plugin that requires objects which these worlds lack is in ``EXCLUDED``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from volcanopy.api import names
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.testing.notation import all_policies

NODES, TASKS, QUEUES = 12, 40, 6
"""The most of each in a world."""

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
    return Case(world(rng), document(rng))


# Configurations


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


# Worlds


def world(rng: Random) -> str:
    """Nodes that are partly full, a tree of queues, jobs that run and jobs that wait, budgets and quotas."""
    lines = [f"class c{value} value={value}" for value in (1, 2, 3)]
    free: dict[str, list[int]] = {}
    most = rng.choice([2, 4, NODES])
    for number in range(rng.randint(1, most)):
        cpu, memory, pods = rng.randint(1, 8), rng.randint(1, 16), rng.choice([2, 5, 20])
        free[f"n{number}"] = [cpu, memory, pods]
        lines.append(f"node n{number} cpu={cpu} memory={memory}Gi pods={pods}{_flags(rng)}{_measures(rng)}")
    lines += ["queue root", *_queues(rng)]
    queues = [line.split()[1] for line in lines if line.startswith("queue") and line != "queue root"]
    left = rng.choice([8, 20, TASKS])
    for number in range(rng.randint(1, 8)):
        runs = bool(rng.randint(0, 1))
        text, used = _job(rng, f"j{number}", queues, free, runs, min(left, 8))
        left -= used
        if used:
            lines.append(text)
    if not rng.randint(0, 3):
        lines.append(f"pod f0 cpu=1 node={rng.choice(sorted(free))}")
    for number in range(rng.choice([0, 0, 1, 2])):
        lines.append(f"budget b{number} allowed={rng.randint(0, 2)} selector.app={rng.choice('ab')}")
    if not rng.randint(0, 3):
        lines.append(f"quota z hard.cpu={rng.randint(1, 12)} used.cpu={rng.randint(0, 2)}")
    return "\n".join(lines)


def _measures(rng: Random) -> str:
    """Measures of a node in its annotations; mostly none."""
    if rng.randint(0, 2):
        return ""
    cpu = json.dumps({"mean": rng.randint(0, 100), "deviation": rng.randint(0, 50)}, separators=(",", ":"))
    return f" note.{names.MEASURE_PREFIX}cpu='{cpu}' note.{names.MEASURE_PREFIX}memory={rng.randint(0, 100)}"


def _flags(rng: Random) -> str:
    flags = ["", "", "", " unschedulable", " taint=t:NoSchedule", " zone=a", " zone=b"]
    return rng.choice([*flags, " volcanopy.io/revocable-zone=rz", " taint=u:PreferNoSchedule"])


def _queues(rng: Random) -> list[str]:
    lines: list[str] = []
    parents = ["root"]
    for number in range(rng.randint(1, QUEUES)):
        tokens = [f"queue q{number} weight={rng.randint(1, 5)} parent={rng.choice(parents)}"]
        if not rng.randint(0, 2):
            tokens.append(f"deserved.cpu={rng.randint(1, 8)}")
        if not rng.randint(0, 3):
            tokens.append(f"capability.cpu={rng.randint(1, 12)}")
        if not rng.randint(0, 5):
            tokens.append(f"capability.memory={rng.randint(1, 20)}Gi")
        if not rng.randint(0, 3):
            tokens.append(f"guarantee.cpu={rng.randint(1, 3)}")
        tokens += rng.choice([[], [], [], [], ["unreclaimable"], ["closed"], ["priority=5"]])
        tokens += subject_limits(rng)
        tokens += terms(rng)
        lines.append(" ".join(tokens))
        if rng.randint(0, 1):
            parents.append(f"q{number}")
    return lines


def terms(rng: Random) -> list[str]:
    """Return random tokens for borrowing, lending and stop policy of a queue; mostly none."""
    tokens = [f"borrow.cpu={rng.randint(0, 4)}"] if not rng.randint(0, 6) else []
    if not rng.randint(0, 6):
        tokens.append(f"lend.{rng.choice(['cpu', 'cpu', 'memory'])}={rng.randint(0, 4)}")
    tokens += rng.choice([[], [], [], [], [], [], [], ["stop=Hold"], ["stop=HoldAndDrain"], ["fifo"]])
    return tokens


def subject_limits(rng: Random) -> list[str]:
    """Return random tokens for limits on jobs, users and groups of a queue; mostly none."""
    tokens = [f"maxrunning={rng.randint(0, 3)}"] if not rng.randint(0, 6) else []
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        who = rng.choice(["user.ana", "user.ana+bo", "user.*", "group.x", "group.y", "group.x+y"])
        what = rng.choice(["cpu", "cpu", "memory", "pods", "running"])
        most = f"{rng.randint(0, 6)}" + ("Gi" if what == "memory" else "")
        tokens.append(f"limit.{who}.{what}={most}")
    return tokens


def _job(
    rng: Random, name: str, queues: list[str], free: dict[str, list[int]], runs: bool, most: int
) -> tuple[str, int]:
    """Return the line of a job, and how many tasks it has."""
    parts: list[str] = []
    total = 0
    for role in range(rng.randint(1, 2)):
        if total >= most:
            break
        count = rng.randint(1, min(6, most - total))
        cpu, memory = rng.choice([0, 1, 1, 1, 2, 2, 3, 4]), rng.choice([0, 0, 1, 2, 4])
        tokens = [f"role=r{role}", f"cpu={cpu}" if cpu else "", f"memory={memory}Gi" if memory else ""]
        tokens += [_task_tokens(rng)]
        here = _nodes_for_running(rng, free, cpu, memory, count) if runs else []
        if here:
            where = rng.choice(["", "", "", " releasing", " bound"])
            parts.append(f"{len(here)} x {' '.join(filter(None, tokens))} on={','.join(here)}{where}")
            total += len(here)
            count = rng.choice([0, 0, 1]) if total < most else 0
        if count:
            least = f" min={rng.randint(1, count)}" if not rng.randint(0, 3) else ""
            nominated = f" nominated={rng.choice(sorted(free))}" if not rng.randint(0, 11) else ""
            parts.append(f"{count} x {' '.join(filter(None, tokens))}{nominated}{least}")
            total += count
    tokens = [f"min={rng.randint(0 if runs else 1, max(total, 1))}", f"queue={rng.choice(queues)}"]
    tokens += rng.choice([[], ["priority=c1"], ["priority=c2"], ["priority=c3"]])
    tokens += ["phase=Running"] if runs else rng.choice([[], [], ["phase=Pending"], ["phase=Pending minres.cpu=2"]])
    tokens += rng.choice([[], [], [], [], [], ["note.volcanopy.io/preemptable=true"], ["namespace=kube-system"]])
    tokens += rng.choice([[], [], ["user=ana"], ["user=ana groups=x"], ["user=bo groups=x+y"], ["user=cy groups=y"]])
    return f"job {name} {' '.join(tokens)}: {', '.join(parts)}", total


def _task_tokens(rng: Random) -> str:
    plain = ["", "", "", "", "tolerates=t", "port=80", "gated", "selector.topology.kubernetes.io/zone=a"]
    notes = [
        "note.volcanopy.io/preemptable=false",
        "note.volcanopy.io/revocable-zone=*",
        "note.volcanopy.io/task-priority=5",
    ]
    return " ".join(filter(None, [rng.choice([*plain, *notes]), rng.choice(["", "", "label.app=a", "label.app=b"])]))


def _nodes_for_running(rng: Random, free: dict[str, list[int]], cpu: int, memory: int, count: int) -> list[str]:
    """Return nodes with free capacity for up to ``count`` running pods, and deduct it."""
    nodes = []
    for _ in range(count):
        node = rng.choice(sorted(free))
        left = free[node]
        if left[0] >= cpu and left[1] >= memory and left[2] > 0:
            free[node] = [left[0] - cpu, left[1] - memory, left[2] - 1]
            nodes.append(node)
    return nodes
