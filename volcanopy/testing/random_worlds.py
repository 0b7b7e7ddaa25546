"""Random worlds and configurations, thrown by a :class:`random.Random`: as text, so that a failing one can be read.

The same dice serve hypothesis, which throws and shrinks them, and long runs by seed. A plugin joins the configurations with
one line in ``ARGUMENTS``; one that needs objects which these worlds do not have stands in ``APART`` with the reason.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.framework.config import SchedulerConfig, parse
from volcanopy.scheduler.framework.registry import Registry

NODES, TASKS, QUEUES = 12, 40, 6
"""The most of each in a world."""

Thrown = Callable[[Random], dict[str, Any]]


def _nothing(_: Random) -> dict[str, Any]:
    return {}


def _number(key: str, most: int) -> Thrown:
    return lambda dice: {key: dice.randint(0, most)} if dice.randint(0, 1) else {}


def _tdm(dice: Random) -> dict[str, Any]:
    hours = dice.choice(["00:00-00:00", "08:00-20:00", "22:00-06:00"])
    return {"tdm.revocable-zone.rz": hours, "tdm.evict.period": "1m"}


def _usage(dice: Random) -> dict[str, Any]:
    return {"thresholds": {"cpu": dice.choice([50, 80]), "mem": dice.choice([50, 80])}}


def _rescheduling(dice: Random) -> dict[str, Any]:
    return {"interval": dice.choice(["1m", "5m"])}


def _strategy(dice: Random) -> dict[str, Any]:
    kind = dice.choice(["LeastAllocated", "MostAllocated"])
    return {"resources": {"cpu": {"type": kind, "weight": dice.randint(1, 3)}}}


ARGUMENTS: Mapping[str, Thrown] = {
    "binpack": _number("binpack.cpu", 5),
    "capacity": _number("ancestorReclaimLevel", 2),
    "cdp": _nothing,
    "conformance": _nothing,
    "deviceshare": _nothing,
    "drf": _nothing,
    "gang": _nothing,
    "network-topology-aware": _nothing,
    "nodegroup": lambda dice: {"strict": bool(dice.randint(0, 1))},
    "nodeorder": _number("mostrequested.weight", 2),
    "numa-aware": _nothing,
    "overcommit": lambda dice: {"overcommit-factor": dice.choice([1, 1.2, 2])},
    "pdb": _nothing,
    "predicates": _nothing,
    "priority": _nothing,
    "proportion": _nothing,
    "rescheduling": _rescheduling,
    "reservation": lambda dice: {"after": dice.choice(["0s", "1h", "48h"]), "heads": dice.randint(1, 2)},
    "resource-strategy-fit": _strategy,
    "resourcequota": _nothing,
    "sla": lambda dice: {"sla-waiting-time": dice.choice(["1m", "100h"])},
    "task-topology": _number("task-topology.weight", 3),
    "tdm": _tdm,
    "usage": _usage,
}
"""The plugins of random configurations, each with its random arguments."""

APART: Mapping[str, str] = {}
"""The plugins that stay out, each with the reason."""

_SWITCHES = ("enablePreemptable", "enableReclaimable", "enableJobOrder", "enableJobStarving", "enabledAllocatable")
_PREFERRED = ("gang", "predicates", "priority", "conformance")


@dataclass(frozen=True)
class Case:
    """A world and a configuration, both as text."""

    world: str
    document: str

    def config(self, registry: Registry | None = None) -> SchedulerConfig:
        """The configuration, read."""
        return parse(self.document, registry or builtin())

    def __str__(self) -> str:
        return f"{self.world}\n--\n{self.document}"


def case(dice: Random) -> Case:
    """A random world with a random configuration."""
    return Case(world(dice), document(dice))


# Configurations


def document(dice: Random) -> str:
    """A random configuration file: actions in an order that makes sense or none, plugins in up to three tiers."""
    tiers: list[list[dict[str, Any]]] = [[] for _ in range(dice.randint(1, 3))]
    named = [name for name in ARGUMENTS if _takes_part(name, dice)]
    if "proportion" in named and "capacity" in named:
        named.remove(dice.choice(["proportion", "capacity"]))
    dice.shuffle(named)
    for name in named:
        entry: dict[str, Any] = {"name": name}
        for switch in _SWITCHES:
            if not dice.randint(0, 9):
                entry[switch] = False
        if name == "capacity" or (name == "drf" and "proportion" not in named):
            entry["enableHierarchy"] = bool(dice.randint(0, 1))
        arguments = ARGUMENTS[name](dice)
        if arguments:
            entry["arguments"] = arguments
        dice.choice(tiers).append(entry)
    return json.dumps({"actions": ", ".join(chain(dice)), "tiers": [{"plugins": tier} for tier in tiers]})


def chain(dice: Random) -> list[str]:
    """Random actions, allocate always among them; enqueue, if there, mostly first."""
    rest = [name for name in sorted(builtin().actions) if name not in {"enqueue", "allocate"} and dice.randint(0, 1)]
    rest.append("allocate")
    dice.shuffle(rest)
    if dice.randint(0, 4):
        rest.insert(0 if dice.randint(0, 4) else dice.randint(0, len(rest)), "enqueue")
    return rest


def _takes_part(name: str, dice: Random) -> bool:
    return bool(dice.randint(0, 7) if name in _PREFERRED else dice.randint(0, 2) == 0)


# Worlds


def world(dice: Random) -> str:
    """Nodes that are partly full, a tree of queues, jobs that run and jobs that wait, budgets and quotas."""
    lines = [f"class c{value} value={value}" for value in (1, 2, 3)]
    room: dict[str, list[int]] = {}
    most = dice.choice([2, 4, NODES])
    for number in range(dice.randint(1, most)):
        cpu, memory, pods = dice.randint(1, 8), dice.randint(1, 16), dice.choice([2, 5, 20])
        room[f"n{number}"] = [cpu, memory, pods]
        lines.append(f"node n{number} cpu={cpu} memory={memory}Gi pods={pods}{_flags(dice)}")
    lines += ["queue root", *_queues(dice)]
    queues = [line.split()[1] for line in lines if line.startswith("queue") and line != "queue root"]
    left = dice.choice([8, 20, TASKS])
    for number in range(dice.randint(1, 8)):
        runs = bool(dice.randint(0, 1))
        text, used = _job(dice, f"j{number}", queues, room, runs, min(left, 8))
        left -= used
        if used:
            lines.append(text)
    if not dice.randint(0, 3):
        lines.append(f"pod f0 cpu=1 node={dice.choice(sorted(room))}")
    for number in range(dice.choice([0, 0, 1, 2])):
        lines.append(f"budget b{number} allowed={dice.randint(0, 2)} selector.app={dice.choice('ab')}")
    if not dice.randint(0, 3):
        lines.append(f"quota z hard.cpu={dice.randint(1, 12)} used.cpu={dice.randint(0, 2)}")
    return "\n".join(lines)


def _flags(dice: Random) -> str:
    flags = ["", "", "", " unschedulable", " taint=t:NoSchedule", " zone=a", " zone=b"]
    return dice.choice([*flags, " volcanopy.io/revocable-zone=rz", " taint=u:PreferNoSchedule"])


def _queues(dice: Random) -> list[str]:
    lines: list[str] = []
    parents = ["root"]
    for number in range(dice.randint(1, QUEUES)):
        words = [f"queue q{number} weight={dice.randint(1, 5)} parent={dice.choice(parents)}"]
        if not dice.randint(0, 2):
            words.append(f"deserved.cpu={dice.randint(1, 8)}")
        if not dice.randint(0, 3):
            words.append(f"capability.cpu={dice.randint(1, 12)}")
        if not dice.randint(0, 5):
            words.append(f"capability.memory={dice.randint(1, 20)}Gi")
        if not dice.randint(0, 3):
            words.append(f"guarantee.cpu={dice.randint(1, 3)}")
        words += dice.choice([[], [], [], [], ["unreclaimable"], ["closed"], ["priority=5"]])
        words += subject_limits(dice)
        words += terms(dice)
        lines.append(" ".join(words))
        if dice.randint(0, 1):
            parents.append(f"q{number}")
    return lines


def terms(dice: Random) -> list[str]:
    """Words on what a queue borrows and lends, how its jobs look outside, and whether it is stopped; mostly none."""
    words = [f"borrow.cpu={dice.randint(0, 4)}"] if not dice.randint(0, 6) else []
    if not dice.randint(0, 6):
        words.append(f"lend.{dice.choice(['cpu', 'cpu', 'memory'])}={dice.randint(0, 4)}")
    if not dice.randint(0, 5):
        words.append(f"offset={dice.choice([-2, -1, 1, 2, 5])}")
    words += dice.choice([[], [], [], ["fence=no"]])
    words += dice.choice([[], [], [], [], [], [], [], ["stop=Hold"], ["stop=HoldAndDrain"], ["fifo"]])
    return words


def subject_limits(dice: Random) -> list[str]:
    """Words that limit jobs, users and groups in a queue; mostly none."""
    words = [f"maxrunning={dice.randint(0, 3)}"] if not dice.randint(0, 6) else []
    for _ in range(dice.choice([0, 0, 0, 1, 1, 2])):
        who = dice.choice(["user.ana", "user.ana+bo", "user.*", "group.x", "group.y", "group.x+y"])
        what = dice.choice(["cpu", "cpu", "memory", "pods", "running"])
        most = f"{dice.randint(0, 6)}" + ("Gi" if what == "memory" else "")
        words.append(f"limit.{who}.{what}={most}")
    return words


def _job(
    dice: Random, name: str, queues: list[str], room: dict[str, list[int]], runs: bool, most: int
) -> tuple[str, int]:
    """A job as a line, and how many tasks it has."""
    parts: list[str] = []
    total = 0
    for role in range(dice.randint(1, 2)):
        if total >= most:
            break
        count = dice.randint(1, min(6, most - total))
        cpu, memory = dice.choice([0, 1, 1, 1, 2, 2, 3, 4]), dice.choice([0, 0, 1, 2, 4])
        words = [f"role=r{role}", f"cpu={cpu}" if cpu else "", f"memory={memory}Gi" if memory else ""]
        words += [_task_words(dice)]
        here = _homes(dice, room, cpu, memory, count) if runs else []
        if here:
            where = dice.choice(["", "", "", " releasing", " bound"])
            parts.append(f"{len(here)} x {' '.join(filter(None, words))} on={','.join(here)}{where}")
            total += len(here)
            count = dice.choice([0, 0, 1]) if total < most else 0
        if count:
            least = f" min={dice.randint(1, count)}" if not dice.randint(0, 3) else ""
            ahead = f" nominated={dice.choice(sorted(room))}" if not dice.randint(0, 11) else ""
            parts.append(f"{count} x {' '.join(filter(None, words))}{ahead}{least}")
            total += count
    words = [f"min={dice.randint(0 if runs else 1, max(total, 1))}", f"queue={dice.choice(queues)}"]
    words += dice.choice([[], ["priority=c1"], ["priority=c2"], ["priority=c3"]])
    words += ["phase=Running"] if runs else dice.choice([[], [], ["phase=Pending"], ["phase=Pending minres.cpu=2"]])
    words += dice.choice([[], [], [], [], [], ["note.volcanopy.io/preemptable=true"], ["namespace=kube-system"]])
    words += dice.choice([[], [], ["user=ana"], ["user=ana groups=x"], ["user=bo groups=x+y"], ["user=cy groups=y"]])
    return f"job {name} {' '.join(words)}: {', '.join(parts)}", total


def _task_words(dice: Random) -> str:
    plain = ["", "", "", "", "tolerates=t", "port=80", "gated", "selector.topology.kubernetes.io/zone=a"]
    notes = [
        "note.volcanopy.io/preemptable=false",
        "note.volcanopy.io/revocable-zone=*",
        "note.volcanopy.io/task-priority=5",
    ]
    return " ".join(filter(None, [dice.choice([*plain, *notes]), dice.choice(["", "", "label.app=a", "label.app=b"])]))


def _homes(dice: Random, room: dict[str, list[int]], cpu: int, memory: int, count: int) -> list[str]:
    """Nodes with room for up to so many running pods; the room is theirs then."""
    homes = []
    for _ in range(count):
        node = dice.choice(sorted(room))
        free = room[node]
        if free[0] >= cpu and free[1] >= memory and free[2] > 0:
            room[node] = [free[0] - cpu, free[1] - memory, free[2] - 1]
            homes.append(node)
    return homes
