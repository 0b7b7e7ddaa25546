"""The scheduler's cache forgets the shapes, queues, nodes and resource names of deleted objects."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.scheduler.test_bulk_loading import columns, same
from volcanopy.api import core
from volcanopy.scheduler.cache import compaction
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy_testing.notation import NOW, config, world

WORLD = """
queue q weight=2
queue r weight=1
node n1 cpu=8 memory=16Gi
node n2 cpu=8 memory=16Gi
job running queue=q: 2 x cpu=1 on=n1
job waiting queue=r: 3 x cpu=2
"""


def filled() -> State:
    """Return a state of the world."""
    state = State()
    for item in world(WORLD):
        state.upsert(item)
    return state


def passing(number: int) -> Iterator[core.Queue | core.Node | core.PodGroup | core.Pod]:
    """Return objects that come and go with names of their own: a queue, a node, and a job whose pods keep apart from each other."""
    meta = core.Meta(name=f"passing-{number}", namespace="default", uid=f"uid-{number}")
    yield core.Queue(metadata=replace(meta, namespace=""))
    amounts: core.Quantities = {"cpu": "4", f"example.com/device-{number}": "1"}
    yield core.Node(metadata=replace(meta, namespace=""), status=core.NodeStatus(allocatable=amounts))
    yield core.PodGroup(metadata=meta, spec=core.PodGroupSpec(min_member=1, queue=meta.name))
    apart = core.PodAffinityTerm(
        topology_key="kubernetes.io/hostname", label_selector=core.LabelSelector(match_labels={"job": meta.name})
    )
    spec = core.PodSpec(
        scheduler_name="volcanopy",
        affinity=core.Affinity(pod_anti_affinity=core.PodAffinity(required=(apart,))),
        containers=(core.Container(name="main", resources=core.ResourceRequirements(requests=amounts)),),
    )
    annotations = {"scheduling.k8s.io/group-name": meta.name}
    yield core.Pod(metadata=replace(meta, annotations=annotations), spec=spec)


def test_what_is_numbered_does_not_grow_with_what_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SPARE", 50)
    state = filled()
    before = columns(state)
    most = 0
    for number in range(80):
        objects = list(passing(number))
        for item in objects:
            state.upsert(item)
        state.snapshot(NOW)
        for item in reversed(objects):
            state.delete(item)
        most = max(most, compaction.numbers(state))
    assert most < 150
    state.compact()
    assert columns(state) == before
    assert sorted(state.queue_rows) == ["default", "q", "r"]
    assert state.axis.names == ("cpu", "memory", "pods")


def test_a_compacted_state_decides_as_before() -> None:
    compacted, kept = filled(), filled()
    plan = schedule(kept.snapshot(NOW, "s"), config("gang, predicates, proportion"))
    assert plan.effects
    for item in passing(1):
        compacted.upsert(item)
    for item in passing(1):
        compacted.delete(item)
    compacted.compact()
    assert schedule(compacted.snapshot(NOW, "s"), config("gang, predicates, proportion")).effects == plan.effects
    for state in (compacted, kept):
        state.assume(plan)
    compacted.compact()
    same(compacted, kept)
    assert compacted.writes == kept.writes


def test_a_state_whose_objects_need_their_numbers_is_compacted_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "SPARE", 0)
    built: list[int] = []

    def noting(state: State) -> None:
        built.append(compaction.numbers(state))

    monkeypatch.setattr(State, "compact", noting)
    state = filled()
    for number in range(300):
        state.submitters.number({"volcanopy.io/submitted-by": f"user-{number}"})
        state.compact_if_due()
    assert 1 <= len(built) <= 5
