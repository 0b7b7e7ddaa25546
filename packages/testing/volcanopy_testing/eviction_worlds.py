"""Random full clusters in which gangs with roles and members without requests wait for evictions."""

from random import Random


def world(dice: Random) -> str:
    """Up to six nodes, mostly full of gangs of several priorities and queues, and up to four waiting gangs."""
    lines = [f"class c{value} value={value}" for value in (1, 5, 9)]
    free = {f"n{number}": dice.choice([2, 4, 4, 8]) for number in range(dice.randint(1, 6))}
    for name, cpu in free.items():
        label = dice.choice(["", "", " disk=ssd", " taint=t:NoSchedule"]) if name != "n0" else ""
        lines.append(f"node {name} cpu={cpu}{label.replace('disk', 'example.com/disk')}")
    queues = [f"q{number}" for number in range(dice.randint(1, 3))]
    for name in queues:
        deserved = dice.choice(["", f" deserved.cpu={dice.randint(1, 8)}"])
        lines.append(f"queue {name} weight={dice.randint(1, 3)}{deserved}{dice.choice(['', '', ' guarantee.cpu=1'])}")
    for number in range(dice.randint(1, 6)):
        lines += _running(dice, f"r{number}", free, queues)
    for number in range(dice.randint(1, 4)):
        lines.append(_waiting(dice, f"w{number}", queues))
    return "\n".join(lines)


def _head(dice: Random, name: str, least: int, queues: list[str]) -> str:
    queue, priority = dice.choice(queues), dice.choice(["", " priority=c1", " priority=c5", " priority=c9"])
    return f"job {name} min={least} queue={queue}{priority}"


def _running(dice: Random, name: str, free: dict[str, int], queues: list[str]) -> list[str]:
    """A running gang of up to six pods on free resources, some with a role, some without requests."""
    size, nodes = dice.choice([1, 1, 2]), list[str]()
    for _ in range(dice.randint(1, 6)):
        node = dice.choice(sorted(free))
        if free[node] >= size:
            free[node] -= size
            nodes.append(node)
    if not nodes:
        return []
    idle = dice.choice(sorted(free)) if not dice.randint(0, 3) else ""
    split = dice.randint(0, len(nodes) - 1) if not dice.randint(0, 1) else 0
    parts = [f"{len(nodes) - split} x cpu={size} role=a on={','.join(nodes[split:])}"]
    if split:
        parts.append(f"{split} x cpu={size} role=b min={dice.randint(1, split)} on={','.join(nodes[:split])}")
    parts += [f"1 x role=c on={idle}"] if idle else []
    total = len(nodes) + bool(idle)
    return [
        f"{_head(dice, name, dice.choice([total, total, dice.randint(1, total)]), queues)} phase=Running: {', '.join(parts)}"
    ]


def _waiting(dice: Random, name: str, queues: list[str]) -> str:
    """A waiting gang of up to three roles; some of its members request nothing, some can never run."""
    parts, total = list[str](), 0
    for role in "abc"[: dice.randint(1, 3)]:
        count = dice.randint(1, 3)
        request = dice.choice(["cpu=1", "cpu=1", "cpu=2", "cpu=3", ""])
        where = dice.choice(["", "", "", "selector.example.com/disk=ssd", "tolerates=t", "selector.a/b=c"])
        least = f"min={dice.randint(1, count)}" if not dice.randint(0, 2) else ""
        parts.append(f"{count} x {' '.join(filter(None, (f'role={role}', request, where, least)))}")
        total += count
    return f"{_head(dice, name, dice.choice([total, total, dice.randint(1, total)]), queues)}: {', '.join(parts)}"
