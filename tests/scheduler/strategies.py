"""Random worlds for property tests, in the notation, so that a failing one can be read.

:func:`cases` are the widest: any world with any configuration, from `tests.scheduler.random_cases`. The others are
narrower and shrink better.
"""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from tests.scheduler.random_cases import Case, case
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse


def cases() -> st.SearchStrategy[Case]:
    """Worlds of up to 12 nodes, 40 tasks and 6 queues in a tree, with any actions and any plugins."""
    return st.randoms(use_true_random=False).map(case)


@st.composite
def worlds(draw: st.DrawFn, nodes: int = 6, jobs: int = 6, tasks: int = 4) -> str:
    """A small world: some nodes, weighted queues, priorities, and jobs of which some run already."""
    lines = [f"class high value={draw(st.integers(1, 3))}"]
    names = [f"n{number}" for number in range(draw(st.integers(1, nodes)))]
    for name in names:
        capacity = f"cpu={draw(st.integers(1, 8))} memory={draw(st.integers(1, 16))}Gi pods={draw(st.integers(2, 20))}"
        flag = draw(st.sampled_from(["", "", "", " unschedulable", " taint=t:NoSchedule", " zone=a", " zone=b"]))
        lines.append(f"node {name} {capacity}{flag}")
    queues = ["default"]
    for number in range(draw(st.integers(0, 2))):
        queues.append(f"q{number}")
        limit = draw(st.sampled_from(["", "", f" capability.cpu={draw(st.integers(1, 12))}"]))
        guarantee = draw(st.sampled_from(["", "", f" guarantee.cpu={draw(st.integers(1, 3))}"]))
        closed = draw(st.sampled_from(["", "", "", " closed"]))
        lines.append(f"queue q{number} weight={draw(st.integers(1, 5))}{limit}{guarantee}{closed}")
    count = draw(st.integers(1, jobs))
    lines += [draw(_job(f"j{number}", names, queues, tasks)) for number in range(count)]
    return "\n".join(lines)


@st.composite
def _job(draw: st.DrawFn, name: str, nodes: list[str], queues: list[str], most: int) -> str:
    parts: list[str] = []
    total = 0
    for role in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, most))
        total += count
        cpu, memory = draw(st.integers(0, 4)), draw(st.integers(0, 6))
        tokens = [f"role=r{role}", f"cpu={cpu}"] + ([f"memory={memory}Gi"] if memory else [])
        where = draw(st.sampled_from(["", "", "on"]))
        if where:
            tokens.append("on=" + ",".join(draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))))
            tokens += draw(st.sampled_from([[], [], ["releasing"], ["bound"]]))
        tokens += draw(st.sampled_from([[], [], [], ["tolerates=t"], ["port=80"], ["gated"]]))
        least = draw(st.sampled_from(["", f"min={draw(st.integers(1, count))}"]))
        parts.append(f"{count} x " + " ".join([*tokens, least]).strip())
    tokens = [f"min={draw(st.integers(1, total))}", f"queue={draw(st.sampled_from(queues))}"]
    tokens += draw(st.sampled_from([[], [], ["priority=high"], ["phase=Pending"], ["phase=Pending", "minres.cpu=2"]]))
    return f"job {name} {' '.join(tokens)}: {', '.join(parts)}"


@st.composite
def crowded_worlds(draw: st.DrawFn) -> str:
    """A world with full nodes, in which pending jobs require evictions: priorities, shares of queues."""
    lines = [f"class c{value} value={value}" for value in (1, 2, 3)]
    free: dict[str, int] = {}
    for number in range(draw(st.integers(1, 4))):
        free[f"n{number}"] = draw(st.integers(1, 4))
        lines.append(f"node n{number} cpu={free[f'n{number}']}{draw(st.sampled_from(['', '', ' zone=a']))}")
    lines += ["queue root", *draw(_queue_lines())]
    queues = [line.split()[1] for line in lines if line.startswith("queue") and line != "queue root"]
    for number in range(draw(st.integers(1, 4))):
        size, tokens = draw(st.integers(1, 2)), [f"queue={draw(st.sampled_from(queues))}", draw(_importance())]
        nodes = []
        for node in draw(st.lists(st.sampled_from(sorted(free)), min_size=1, max_size=5)):
            if free[node] >= size:
                free[node] -= size
                nodes.append(node)
        if nodes:
            flag = draw(st.sampled_from(["", "", "", " note.volcanopy.io/preemptable=false", " port=80"]))
            least = draw(st.integers(0, len(nodes)))
            parts = ", ".join(f"1 x cpu={size} on={node}{flag}" for node in nodes)
            lines.append(f"job r{number} min={least} phase=Running {' '.join(tokens)}: {parts}")
    for number in range(draw(st.integers(1, 4))):
        count, size = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        tokens = [f"queue={draw(st.sampled_from(queues))}", draw(_importance()), f"min={draw(st.integers(1, count))}"]
        flag = draw(st.sampled_from(["", "", "", " port=80", " selector.topology.kubernetes.io/zone=a"]))
        phase = draw(st.sampled_from(["", "", f"phase=Pending minres.cpu={count * size}"]))
        lines.append(f"job w{number} {' '.join([*tokens, phase])}: {count} x cpu={size}{flag}")
    return "\n".join(lines)


def _importance() -> st.SearchStrategy[str]:
    return st.sampled_from(["", "priority=c1", "priority=c2", "priority=c3"])


@st.composite
def _queue_lines(draw: st.DrawFn) -> list[str]:
    """One to four queues, some nested, with weights, fair shares, capabilities and guarantees."""
    lines: list[str] = []
    parents = ["root"]
    for number in range(draw(st.integers(1, 4))):
        tokens = [f"weight={draw(st.integers(1, 3))}"]
        tokens += draw(st.sampled_from([[], [], [f"deserved.cpu={draw(st.integers(1, 6))}"]]))
        tokens += draw(st.sampled_from([[], [], [], [f"capability.cpu={draw(st.integers(1, 8))}"]]))
        tokens += draw(st.sampled_from([[], [], [], ["guarantee.cpu=1"], ["unreclaimable"]]))
        tokens.append(f"parent={draw(st.sampled_from(parents))}")
        lines.append(f"queue q{number} {' '.join(tokens)}")
        parents.append(f"q{number}")
    return lines


CHAINS = (
    "enqueue, allocate, preempt",
    "enqueue, allocate, backfill, preempt, reclaim",
    "enqueue, allocate, backfill, reclaim, preempt",
    "enqueue, reclaim, allocate",
    "enqueue, reclaim, preempt, allocate, backfill",
    "allocate, reclaim",
)
"""Common orders of actions, all with evictions."""

GANG_CHAINS = (
    "enqueue, allocate, gangpreempt",
    "enqueue, allocate, backfill, gangpreempt, gangreclaim",
    "enqueue, gangreclaim, gangpreempt, allocate",
    "allocate, gangreclaim",
)
"""The same with the gang actions, which evict whole bundles."""


@st.composite
def evicting_configs(draw: st.DrawFn, chains: Sequence[str] = CHAINS) -> SchedulerConfig:
    """Actions that evict, and plugins that filter victims, in one or two tiers, with some switches off."""
    queues = draw(st.sampled_from(["proportion", "capacity", "capacity", ""]))
    optional = ("priority", "conformance", "drf", "overcommit", "nodeorder", "binpack")
    names = [
        name
        for name in ("gang", "predicates", *optional, queues)
        if name and (name in {"gang", "predicates", queues} or draw(st.booleans()))
    ]
    tiers: tuple[list[dict[str, object]], ...] = ([], [])
    for name in draw(st.permutations(names)):
        entry: dict[str, object] = {"name": name}
        for switch in ("enablePreemptable", "enableReclaimable"):
            if draw(st.integers(0, 3)) == 0:
                entry[switch] = False
        if name == "capacity":
            entry["enableHierarchy"] = draw(st.booleans())
            entry["arguments"] = {"ancestorReclaimLevel": draw(st.integers(0, 2))}
        draw(st.sampled_from(tiers)).append(entry)
    document = {"actions": draw(st.sampled_from(chains)), "tiers": [{"plugins": tier} for tier in tiers]}
    return parse(json.dumps(document), builtin())
