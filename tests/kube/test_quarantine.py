"""Objects that cannot be read or counted are excluded one by one; everything else is scheduled as before."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.kube.test_store import NOW, added, filled, versioned
from volcanopy.api import core, topology_read
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import config, world

BAD = "9" * 5000
"""A quantity that no process reads."""
CONFIG = config("gang, priority, predicates, proportion, nodeorder")


def bad(pod: Any) -> Any:
    container = core.Container(resources=core.ResourceRequirements(requests={"cpu": BAD}))
    return replace(pod, spec=replace(pod.spec, containers=(container,)))


def binds(store: Store) -> dict[str, str]:
    plan = schedule(store.snapshot(NOW), CONFIG)
    return {effect.pod: effect.node for effect in plan.of(Bind)}


def pod_of(name: str, **values: str) -> core.Pod:
    line = " ".join(f"{key}={value}" for key, value in values.items())
    return next(item for item in world(f"pod {name} cpu=1 {line}") if isinstance(item, core.Pod))


def test_a_bad_pod_in_a_batch_is_excluded_alone() -> None:
    things: list[Any] = [bad(item) if item.metadata.name == "a-40" else item for item in world(_jobs(60))]
    store = Store()
    store.take(added(*things))
    (entry,) = store.quarantine.entries()
    assert (entry.kind, entry.key) == ("Pod", "default/a-40")
    assert "is not a quantity" in entry.error
    assert len(binds(store)) == 59


def _jobs(count: int) -> str:
    return f"node n1 cpu={count}\njob a min=1: {count} x cpu=1"


def test_a_bad_pod_returns_when_it_is_corrected_and_leaves_when_it_is_deleted() -> None:
    store = filled()
    good = store.pods["default/a-0"]
    store.take([Change(ChangeType.MODIFIED, versioned(bad(good), 7))])
    assert len(store.quarantine.entries()) == 1
    assert binds(store) == {}
    store.take([Change(ChangeType.MODIFIED, versioned(good, 8))])
    assert store.quarantine.entries() == []
    assert len(binds(store)) == 2
    store.take([Change(ChangeType.MODIFIED, versioned(bad(good), 9))])
    store.take([Change(ChangeType.DELETED, versioned(bad(good), 10))])
    assert store.quarantine.entries() == []


def test_an_object_that_cannot_be_read_is_excluded_alone_and_reported_once_until_it_can_be() -> None:
    store = filled("node n1 cpu=1\nnode n2 cpu=1\njob a min=1: 2 x cpu=1")
    reported: list[str] = []
    store.quarantine.reported = lambda entry: reported.append(f"{entry.key}: {entry.error}")
    node = next(item for item in world("node n2 cpu=1") if isinstance(item, core.Node))
    part = replace(node, status=core.NodeStatus())
    for version in (7, 8):
        store.take([Change(ChangeType.UNREADABLE, versioned(part, version), error="wrong")])
    assert reported == ["n2: wrong"]
    assert set(binds(store).values()) == {"n1"}
    store.take([Change(ChangeType.ADDED, versioned(node, 9))])
    assert store.quarantine.entries() == []
    assert set(binds(store).values()) == {"n1", "n2"}


def test_nothing_is_placed_on_a_node_with_an_unreadable_pod() -> None:
    store = filled("node n1 cpu=4\nnode n2 cpu=4\njob a min=1: 4 x cpu=1")
    part = pod_of("foreign", node="n1")
    store.take([Change(ChangeType.UNREADABLE, versioned(part, 7), error="wrong")])
    assert set(binds(store).values()) == {"n2"}
    store.take([Change(ChangeType.DELETED, versioned(part, 8))])
    assert set(binds(store).values()) == {"n1", "n2"}


@pytest.mark.parametrize(("later", "phase", "free"), [("n2", "Running", {"n1"}), ("n1", "Succeeded", {"n1", "n2"})])
def test_the_node_of_an_unreadable_pod_is_used_again_when_the_pod_has_left_it(
    later: str, phase: str, free: set[str]
) -> None:
    """A list that follows a lost watch has the next pod of this name, without the deletion of the one before."""
    store = filled("node n1 cpu=4\nnode n2 cpu=4\njob a min=1: 8 x cpu=1")
    before, after = (pod_of("foreign", node=node) for node in ("n1", later))
    after = replace(after, status=replace(after.status, phase=phase))
    for version, pod in ((7, before), (8, after)):
        store.take([Change(ChangeType.UNREADABLE, versioned(pod, version), error="wrong")])
    assert set(binds(store).values()) == free


def cycle_follows(store: Store, change: Change[Any]) -> bool:
    """Whether a cycle follows a change."""
    store.changed.clear()
    store.take([change])
    return store.changed.since is not None


def test_jobs_start_on_the_node_of_a_pod_that_can_be_read_again() -> None:
    """A watch deletes an object that it cannot read, and adds it when it can: with a cycle, though nothing else of it has changed."""
    store = filled("node n1 cpu=4\npod foreign cpu=1 node=n1\njob a: 1 x cpu=1")
    pod = store.pods["default/foreign"]
    store.take([Change(ChangeType.DELETED, pod), Change(ChangeType.UNREADABLE, versioned(pod, 7), error="wrong")])
    assert binds(store) == {}
    assert cycle_follows(store, Change(ChangeType.ADDED, versioned(pod, 8)))
    assert store.quarantine.entries() == []
    assert binds(store) == {"default/a-0": "n1"}


@pytest.mark.parametrize("readable", [True, False])
def test_a_cycle_follows_when_an_excluded_pod_is_deleted(readable: bool) -> None:
    store = filled("node n1 cpu=4")
    pod = pod_of("foreign", node="n1")
    bad_one = Change(ChangeType.ADDED, bad(pod)) if readable else Change(ChangeType.UNREADABLE, pod, error="wrong")
    store.take([bad_one])
    assert cycle_follows(store, Change(ChangeType.DELETED, versioned(pod, 8)))


def test_nothing_is_placed_on_a_node_with_a_bad_pod() -> None:
    """What that pod uses is unknown."""
    store = filled("node n1 cpu=4\nnode n2 cpu=4\njob a min=1: 4 x cpu=1")
    foreign = bad(pod_of("foreign", node="n1"))
    store.take(added(foreign))
    assert set(binds(store).values()) == {"n2"}
    store.take([Change(ChangeType.DELETED, foreign)])
    assert "n1" in binds(store).values()


def test_a_node_of_a_bad_pod_that_comes_later_is_not_used_either() -> None:
    store = Store()
    store.take(added(bad(pod_of("foreign", node="n1"))))
    store.take(added(*world("node n1 cpu=4\njob a min=1: 1 x cpu=1")))
    assert binds(store) == {}


@pytest.mark.parametrize(
    "spec",
    [
        {"capability": {"cpu": BAD}},
        {"deserved": {"cpu": BAD}},
        {"guarantee": core.Guarantee(resource={"cpu": BAD})},
        {"weight": 2**80},
        {"priority": -(2**80)},
        {"borrowing_limit": {"memory": BAD}},
        {"limits": (core.QueueLimit(users=("ana",), resources={"cpu": BAD}),)},
    ],
)
def test_the_jobs_of_a_bad_queue_wait_and_no_others(spec: dict[str, Any]) -> None:
    store = filled("queue q\nnode n1 cpu=4\njob a queue=q min=1: 1 x cpu=1\njob b min=1: 1 x cpu=1")
    queue = store.queues["q"]
    store.take([Change(ChangeType.MODIFIED, versioned(replace(queue, spec=replace(queue.spec, **spec)), 7))])
    (entry,) = store.quarantine.entries()
    assert (entry.kind, entry.key) == ("Queue", "q")
    assert binds(store) == {"default/b-0": "n1"}
    store.take([Change(ChangeType.MODIFIED, versioned(queue, 8))])
    assert len(binds(store)) == 2


def test_a_bad_pod_group_node_and_hypernode_are_excluded_alone() -> None:
    store = filled("node n1 cpu=4\nnode n2 cpu=4\njob a min=1: 1 x cpu=1\njob b min=1: 1 x cpu=1")
    group, node = store.groups["default/a"], world("node n1 cpu=4")[-1]
    assert isinstance(node, core.Node)
    selector = topology_read.MemberSelector(regex_match=topology_read.RegexMatch(pattern="(" * 20_000))
    member = topology_read.Member(type="Node", selector=selector)
    hypernode = topology_read.HyperNode(
        metadata=core.Meta(name="h", uid="h"), spec=topology_read.HyperNodeSpec(tier=1, members=(member,))
    )
    store.take(
        [
            Change(ChangeType.MODIFIED, replace(group, spec=replace(group.spec, min_resources={"cpu": BAD}))),
            Change(ChangeType.MODIFIED, replace(node, status=replace(node.status, allocatable={"cpu": BAD}))),
            Change(ChangeType.ADDED, hypernode),
        ]
    )
    assert {entry.kind for entry in store.quarantine.entries()} >= {"PodGroup", "Node"}
    assert binds(store) == {"default/b-0": "n2"}


def test_a_held_object_stays_excluded_when_it_changes_until_it_is_readmitted_as_it_is_then() -> None:
    store = filled()
    pod = store.pods["default/a-0"]
    store.quarantine.exclude(pod, "examined", held=True)
    changed = replace(pod, metadata=replace(pod.metadata, labels={"new": "label"}))
    store.take([Change(ChangeType.MODIFIED, changed)])
    assert "default/a-0" not in store.state.tasks.rows
    store.quarantine.readmit([pod])
    assert store.state.tasks.plain["pods"][store.state.tasks.rows["default/a-0"]] is changed
