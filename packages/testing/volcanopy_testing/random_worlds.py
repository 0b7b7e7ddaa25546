"""Random worlds as text, so that failures are readable.

They are generated from a :class:`random.Random`, by hypothesis (which shrinks them) or from a seed.
"""

import json
from random import Random

from volcanopy.api import names

NODES, TASKS, QUEUES = 12, 40, 6
"""The most of each in a world."""


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
