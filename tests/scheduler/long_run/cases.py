"""The table of long runs: eight nodes of eight cpus on which every queue always has work waiting."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.scheduler.long_run.measures import Case
from tests.scheduler.long_run.workload import SMALL, Single, Stream
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse

ADMIT = "enqueue, allocate, backfill"
EVICT = "enqueue, allocate, preempt, reclaim, backfill"
RECLAIM = "enqueue, allocate, reclaim, backfill"
DEFAULT = default(builtin())


def config(
    actions: str = ADMIT,
    share: str | dict[str, Any] = "proportion",
    first: Sequence[str | dict[str, Any]] = (),
    without: Sequence[str] = ("reservation",),
) -> SchedulerConfig:
    """Return the default configuration with other actions, another plugin for shares, plugins before it, or without some.

    Unlike there, gangs may be evicted.
    """
    tiers: list[list[str | dict[str, Any]]] = [
        ["priority", {"name": "gang", "enablePreemptable": False, "enableReclaimable": False}, "conformance", *first],
        ["overcommit", {"name": "drf", "enablePreemptable": False}, "predicates", share, "nodeorder", "binpack"],
    ]
    tiers[1] += ["slowdown", "reservation"]
    entries = [[{"name": entry} if isinstance(entry, str) else entry for entry in tier] for tier in tiers]
    if isinstance(share, dict) and share["name"] == "drf":
        entries[1] = [entry for entry in entries[1] if entry["name"] != "drf" or entry is share]
    absent = {*without, *(entry["name"] for entry in entries[0])}
    plugins = [{"plugins": entries[0]}, {"plugins": [entry for entry in entries[1] if entry["name"] not in absent]}]
    return parse(json.dumps({"actions": actions, "tiers": plugins}), builtin())


CAPACITY = {"name": "capacity", "enableHierarchy": True}
HIERARCHICAL_DRF = {"name": "drf", "enableHierarchy": True}
SLA = {"name": "sla", "arguments": {"sla-waiting-time": "10m"}}

THREE = "queue a weight=1\nqueue b weight=2\nqueue c weight=3"
SHARES = {"a": 1, "b": 2, "c": 3}
DESERVED = "queue root\n" + "\n".join(
    f"queue {name} parent=root deserved.cpu={cpus}" for name, cpus in (("a", 11), ("b", 21), ("c", 32))
)
TREE = """
    queue root
    queue x parent=root
    queue y parent=root weight=3
    queue xa parent=x
    queue xb parent=x
    queue ym parent=y weight=2
    queue yc parent=y
    queue yma parent=ym weight=3
    queue ymb parent=ym
"""
TREE_SHARES = {"xa": 3, "xb": 3, "yc": 6, "yma": 9, "ymb": 3}
TWO_LEVELS = """
    queue root
    queue x parent=root
    queue y parent=root weight=3
    queue xa parent=x
    queue xb parent=x
    queue yc parent=y
    queue yd parent=y weight=2
"""
BUSY = tuple(Stream(queue) for queue in SHARES)
SINGLE_PODS = tuple(Stream(queue, pods=(1,), cpu=("1",)) for queue in SHARES)
LARGE_GANGS = (*SINGLE_PODS[:2], Stream("c", pods=(16,), cpu=("2",)))
LARGE_PODS = (*SINGLE_PODS[:2], Stream("c", pods=(1,), cpu=("8",)))
GANGS_OF_THE_LIGHTEST = (Stream("a", pods=(8,), cpu=("2",)), *SINGLE_PODS[1:])
ELASTIC = tuple(Stream(queue, pods=(2, 4, 8), cpu=("1",), minimum=1) for queue in SHARES)
LATE = (*BUSY[:2], Stream("c", first=100))


RECLAIMING = config(RECLAIM, without=())
"""All plugins of the default configuration, with reclaim."""


def shares(
    name: str,
    config: SchedulerConfig = DEFAULT,
    streams: tuple[Stream, ...] = BUSY,
    queues: str = THREE,
    **more: Any,
) -> Case:
    """Return a case that measures shares; by default of three queues with weights 1:2:3."""
    return Case(name, config, queues, streams, more.pop("expected", SHARES), **more)


def late_pods(name: str, streams: Sequence[Stream], delay: int, **more: Any) -> Case:
    """Return a case with pods that are created ``delay`` cycles after admission; more jobs wait, since some have no pods."""
    return shares(name, streams=tuple(replace(stream, backlog=0.8) for stream in streams), delay=delay, **more)


def _tree(streams: tuple[Stream, ...] | None = None, **more: Any) -> Case:
    streams = streams or tuple(Stream(leaf) for leaf in TREE_SHARES)
    return shares(streams=streams, queues=TREE, expected=TREE_SHARES, **more)


def _large(name: str, config: SchedulerConfig = DEFAULT, pods: int = 8, declared: bool = False, **more: Any) -> Case:
    """Return a case with a gang of pods that each need a node, among small jobs that keep coming."""
    stream = Stream("default", cpu=("1", "2", "4"), backlog=0.5, declared=declared)
    gang = Single("gang", more.pop("queue", "default"), 50, pods, "8", declared=declared, **more)
    return Case(name, config, "queue default", (stream,), singles=(gang,), cycles=150, settle=20)


DESERVED_SHARES = {"a": 11, "b": 21, "c": 32}
SHARE_CASES = (
    shares("flat queues"),
    shares("flat queues, single pods of 1 cpu", streams=SINGLE_PODS),
    shares("flat queues, without overcommit", config(without=["overcommit"])),
    shares("flat queues, without enqueue", config("allocate, backfill", without=())),
    shares("flat queues, reclaim", RECLAIMING),
    shares("the heaviest queue has gangs of 16 x 2 cpu", streams=LARGE_GANGS),
    shares("the heaviest queue has gangs of 16 x 2 cpu, reclaim", RECLAIMING, LARGE_GANGS),
    shares("the heaviest queue has pods of 8 cpu", streams=LARGE_PODS),
    shares("the heaviest queue has pods of 8 cpu, reclaim", RECLAIMING, LARGE_PODS),
    shares("the lightest queue has gangs of 8 x 2 cpu", streams=GANGS_OF_THE_LIGHTEST),
    shares("the heaviest queue comes late", streams=LATE, settle=140, cycles=240),
    shares("the heaviest queue comes late, reclaim", config(EVICT, without=()), LATE, settle=120, cycles=240),
    *(late_pods(f"flat queues, pods {delay} cycles late", BUSY, delay) for delay in (2, 4)),
    late_pods("flat queues, reclaim, pods 2 cycles late", BUSY, 2, config=RECLAIMING),
    late_pods("the heaviest queue has pods of 8 cpu, 4 cycles late", LARGE_PODS, 4),
    _tree(name="tree of three levels", cycles=240),
    _tree(name="tree of three levels, reclaim", config=RECLAIMING, cycles=240),
    *(
        shares(
            name,
            config(actions, HIERARCHICAL_DRF, without=without),
            tuple(Stream(leaf) for leaf in ("xa", "xb", "yc", "yd")),
            TWO_LEVELS,
            expected={"xa": 1, "xb": 1, "yc": 2, "yd": 4},
        )
        for name, actions, without in (
            ("hierarchical drf", ADMIT, ()),
            ("hierarchical drf, reclaim", RECLAIM, ("reservation",)),
        )
    ),
    shares("elastic jobs", streams=ELASTIC, cycles=120),
    shares(
        "elastic jobs, the heaviest queue comes late, reclaim",
        RECLAIMING,
        (*ELASTIC[:2], replace(ELASTIC[2], first=60)),
        settle=80,
        cycles=180,
    ),
    shares("capacity, deserved 1:2:3", config(share=CAPACITY, without=()), queues=DESERVED, expected=DESERVED_SHARES),
    shares(
        "capacity, deserved 1:2:3, reclaim",
        config(RECLAIM, CAPACITY, without=()),
        queues=DESERVED,
        expected=DESERVED_SHARES,
    ),
)
USERS = {"q/ana": 1, "q/bo": 1, "q/cy": 1}


def users(name: str, *streams: Stream, **more: Any) -> Case:
    """Return a case that measures the shares of three users of one fair queue."""
    named = tuple(
        replace(stream, queue="q", user=user) for stream, user in zip(streams, ("ana", "bo", "cy"), strict=True)
    )
    return shares(name, streams=named, queues="queue q order=fair", expected=USERS, cycles=240, **more)


USER_CASES = (
    users("users of a fair queue", *BUSY),
    users("users of a fair queue, one with few long jobs", *BUSY[:2], Stream("q", pods=(1,), minutes=(40, 60))),
    users("users of a fair queue, one with gangs of 8 x 2 cpu", *BUSY[:2], Stream("q", pods=(8,), cpu=("2",))),
    users("users of a fair queue, one with pods of 8 cpu", *SINGLE_PODS[:2], Stream("q", pods=(1,), cpu=("8",))),
)
GANG_CASES = (
    _large("a gang of the whole cluster"),
    _large("a gang of the whole cluster, declared run times", declared=True),
    _large("a gang of the whole cluster, sla of 10 minutes", config(first=[SLA])),
    _large("a gang of half the cluster", pods=4),
    _large("a gang of half the cluster, sla of 10 minutes", config(first=[SLA]), pods=4),
    _large("a gang of half the cluster, priority, preempt", config(EVICT), pods=4, priority=100),
    _large("a gang of three quarters of the cluster", pods=6),
)
IMPORTANT = tuple(Single(f"important-{number}", "default", 20 + 2 * number, 4, "4", priority=9) for number in range(8))
WAIT_CASES = (
    Case(
        "jobs of high priority for a while",
        DEFAULT,
        "queue default",
        (Stream("default"),),
        singles=IMPORTANT,
        cycles=150,
        settle=20,
    ),
)
"""Cases that measure how long jobs wait."""
PAID_BACK_CASES = (
    shares(
        "a gang of the whole cluster in one of three queues", singles=(Single("gang", "c", 50, 8, "8"),), cycles=280
    ),
    shares(
        "a gang of half the cluster in the lightest of three queues",
        singles=(Single("gang", "a", 50, 4, "8"),),
        cycles=360,
    ),
)
"""Cases with a gang that gets far more than the share of its queue while it runs; the others are paid back until the end."""


def _urgent(name: str, streams: Sequence[Stream], every: int, pods: Sequence[int], cpus: Sequence[str]) -> Case:
    """Return a case in which jobs of a high priority arrive regularly in a queue full of jobs of lower ones."""
    singles = tuple(
        Single(f"urgent-{at}", "default", at, pods[at % len(pods)], cpus[at % len(cpus)], 12, priority=9)
        for at in range(30, 240, every)
    )
    return Case(name, config(EVICT), "queue default", tuple(streams), singles=singles, cycles=240, settle=20)


_LONG = Stream("default", pods=SMALL, cpu=("1", "2", "4", "8"), minutes=(30, 90), backlog=0.6)
PREEMPT_CASES = (
    _urgent("jobs of several sizes, preempt", [_LONG], 2, (1, 2, 3), ("1", "2", "4")),
    _urgent("elastic jobs, preempt", [replace(_LONG, pods=(2, 4, 8), cpu=("1", "2"), minimum=1)], 2, (1, 2, 4), ("2",)),
    _urgent("gangs of several sizes, preempt", [replace(_LONG, pods=(4, 8), cpu=("1", "2"))], 3, (2, 4), ("2", "4")),
    _urgent(
        "jobs of two priorities, preempt",
        [replace(_LONG, backlog=0.3), replace(_LONG, priority=1, minutes=(20, 40), backlog=0.3)],
        4,
        (1, 2, 3),
        ("2", "4"),
    ),
    _urgent("jobs of one size, preempt", [replace(_LONG, pods=(1,), cpu=("8",))], 35, (1,), ("8",)),
)
"""Cases in which jobs of a high priority preempt others of their queue."""
CASES = {
    case.name: case for case in (*SHARE_CASES, *USER_CASES, *GANG_CASES, *WAIT_CASES, *PAID_BACK_CASES, *PREEMPT_CASES)
}
