"""Admission follows shares: what enqueue admits, level by level, does not depend on the order of arrival."""

import json
from collections import Counter

import pytest

from tests.scheduler.long_run.cases import RECLAIM
from tests.scheduler.long_run.cases import config as long_run_config
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy_testing.notation import decide, snapshot

TREE = "queue root\nqueue x parent=root\nqueue y weight=3 parent=root\n"
LEAVES = {"xa": ("x", 1, 3), "xb": ("x", 1, 3), "ya": ("y", 1, 6), "yb": ("y", 2, 12)}
"""The parent, weight and deserved cpus of each leaf."""


def config(shares: str, hierarchy: bool = False) -> SchedulerConfig:
    plugin = {"name": shares, "enableHierarchy": hierarchy}
    tiers = [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "overcommit"}, {"name": "predicates"}, plugin]}]
    return parse(json.dumps({"actions": "enqueue, allocate", "tiers": tiers}), builtin())


def admitted(text: str, configured: SchedulerConfig) -> Counter[str]:
    """Return how many jobs of each queue are admitted; a job is named after its queue."""
    plan = schedule(snapshot(text), configured)
    names = [effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"]
    return Counter(name.removeprefix("default/").rpartition("-")[0] for name in names)


def waiting(queue: str, count: int, cpus: int = 1) -> str:
    return "".join(f"job {queue}-{n} queue={queue} phase=Pending minres.cpu={cpus}:\n" for n in range(count))


def test_queues_are_admitted_by_weight_not_by_arrival() -> None:
    text = "node n1 cpu=10\nqueue a\nqueue b weight=2\nqueue c weight=3\n" + "".join(waiting(q, 20) for q in "abc")
    assert admitted(text, default(builtin())) == {"a": 2, "b": 4, "c": 6}


@pytest.mark.parametrize("shares", ["proportion", "capacity", "drf"])
def test_leaves_of_a_tree_are_admitted_by_the_weights_of_each_level(shares: str) -> None:
    text = "node n1 cpu=20\n" + TREE
    for name, (parent, weight, cpus) in LEAVES.items():
        deserved = f" deserved.cpu={cpus}" if shares == "capacity" else ""
        text += f"queue {name} parent={parent} weight={weight}{deserved}\n"
    text += "".join(waiting(name, 30) for name in LEAVES)
    assert admitted(text, config(shares, hierarchy=shares != "proportion")) == {"xa": 3, "xb": 3, "ya": 6, "yb": 12}


def test_what_others_have_been_admitted_for_does_not_keep_a_queue_from_its_share() -> None:
    """All twelve cpus that overcommit admits are taken by the first queue, which deserves five."""
    others = "".join(f"job old-{n} queue=a minres.cpu=1: 1 x cpu=1\n" for n in range(12))
    text = f"node n1 cpu=10\nqueue a\nqueue b\n{others}{waiting('b', 8)}{waiting('a', 8)}"
    assert admitted(text, default(builtin()))["b"] == 5
    assert admitted(text, default(builtin()))["a"] == 0


LARGE = "".join(f"job large{n} minres.cpu=20: 1 x cpu=20\n" for n in (1, 2))


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_admitted_jobs_that_no_node_can_hold_reserve_nothing(shares: str) -> None:
    nodes = "".join(f"node n{n} cpu=8\n" for n in range(6))
    text = f"{nodes}{LARGE}job next phase=Pending minres.cpu=9:\n"
    plan = schedule(snapshot(text), config(shares))
    assert "podgroup next Inqueue" in str(plan)


def test_without_nodes_admitted_jobs_keep_their_reservation() -> None:
    """Nodes may be added because jobs wait, but not for more than the capability."""
    jobs = "job first queue=q minres.cpu=8: 1 x cpu=8\njob next queue=q phase=Pending minres.cpu=8:\n"
    assert "podgroup next Inqueue" not in str(
        decide(f"queue q capability.cpu=8\n{jobs}", "gang, capacity | predicates")
    )


DEFAULT = default(builtin())
RECLAIMING = long_run_config(RECLAIM)
GANGS = "".join(f"job j{name} queue={name}: 13 x cpu=1\n" for name in "ab")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("node n1 cpu=10\nqueue a\nqueue b\njob ja queue=a: 1 x cpu=6\njob jb queue=b: 1 x cpu=6", 1),
        ("".join(f"node n{n} cpu=8\n" for n in range(3)) + "queue a\nqueue b\n" + GANGS, 13),
        (
            "node n1 cpu=32\nqueue root\nqueue d parent=root\nqueue a parent=d\nqueue b parent=d guarantee.cpu=4\n"
            "job j queue=a: 4 x cpu=1",
            4,
        ),
    ],
    ids=["jobs larger than the shares", "gangs larger than the shares", "the guarantee of an idle sibling"],
)
@pytest.mark.parametrize("policies", [DEFAULT, RECLAIMING], ids=["default", "reclaim"])
def test_an_idle_cluster_starts_something(text: str, count: int, policies: SchedulerConfig) -> None:
    """Where pods can be reclaimed, too: jobs that no share covers do not keep the cluster idle for each other."""
    assert len(schedule(snapshot(text), policies).of(Bind)) == count


def test_nothing_is_lent_that_a_queue_below_its_share_can_use() -> None:
    """Queue b waits for the rest of its share, two cpus on one node; a is at its share and gets neither of them."""
    nodes = "node n1 cpu=3\nnode n2 cpu=3\nqueue a\nqueue b\n"
    running = "job ra queue=a min=0: 3 x cpu=1 on=n1,n1,n2\njob rb queue=b min=0: 1 x cpu=1 on=n2\n"
    waiting_jobs = "job wb queue=b phase=Pending minres.cpu=2:\njob wa queue=a: 1 x cpu=1\n"
    assert schedule(snapshot(nodes + running + waiting_jobs), DEFAULT).of(Bind) == []
    assert len(schedule(snapshot(nodes + running + "job wa queue=a: 1 x cpu=1"), DEFAULT).of(Bind)) == 1


LABELLED = "".join(f"node n{number} cpu=8 label.disk={'ssd' if number < 2 else 'hdd'}\n" for number in range(6))


@pytest.mark.parametrize(
    ("pods", "is_admitted"),
    [
        ("minres.cpu=20: 1 x cpu=20", True),
        ("minres.cpu=24: 3 x cpu=8 selector.disk=ssd", True),
        ("minres.cpu=16: 2 x cpu=8 selector.disk=ssd", False),
        ("minres.cpu=45: 9 x cpu=5", True),
        ("minres.cpu=30: 6 x cpu=5", False),
    ],
)
@pytest.mark.parametrize("policies", [DEFAULT, config("capacity"), config("proportion")])
def test_jobs_whose_pods_fit_on_no_set_of_empty_nodes_reserve_nothing(
    pods: str, is_admitted: bool, policies: SchedulerConfig
) -> None:
    """Three such jobs wait, whose minima would fill the limit of admission."""
    waiting_jobs = "".join(f"job j{number} queue=q phase=Inqueue {pods}\n" for number in range(3))
    text = f"{LABELLED}queue q\n{waiting_jobs}job next queue=q phase=Pending minres.cpu=30:"
    plan = str(schedule(snapshot(text), policies))
    assert ("podgroup next Inqueue" in plan) is is_admitted


@pytest.mark.parametrize(("pods", "is_admitted"), [("", True), ("1 x cpu=8", True), ("2 x cpu=8", False)])
@pytest.mark.parametrize("policies", [DEFAULT, config("capacity"), config("proportion")])
def test_jobs_whose_pods_the_server_rejects_reserve_nothing(
    pods: str, is_admitted: bool, policies: SchedulerConfig
) -> None:
    """Three admitted jobs of two pods each, of which some or none exist."""
    marked = "min=2 phase=Inqueue minres.cpu=16 note.volcanopy.io/pods-rejected=true"
    others = "".join(f"job j{number} queue=q {marked}: {pods}\n" for number in range(3))
    text = f"{LABELLED}queue q\n{others}job next queue=q phase=Pending minres.cpu=30:"
    assert ("podgroup next Inqueue" in str(schedule(snapshot(text), policies))) is is_admitted


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_a_message_states_no_negative_reservation(shares: str) -> None:
    """The running job has one cpu more than its minimum, which counts as available for others."""
    running = "job first queue=q min=1 minres.cpu=2 phase=Running: 1 x cpu=3 on=n1"
    text = f"node n1 cpu=20\nqueue q capability.cpu=8\n{running}\njob next queue=q phase=Pending minres.cpu=7:"
    plan = str(schedule(snapshot(text), config(shares)))
    assert "cpu requested 7, allocated 3, capability 8" in plan


def test_a_job_that_is_too_large_keeps_no_other_out_in_the_cycle_of_its_admission() -> None:
    large = "".join(f"job large{number} queue=q phase=Pending minres.cpu=20: 1 x cpu=20\n" for number in range(2))
    text = f"{LABELLED}queue q\n{large}job next queue=q phase=Pending minres.cpu=9:"
    assert "podgroup next Inqueue" in str(schedule(snapshot(text), DEFAULT))
