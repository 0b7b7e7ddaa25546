"""Who holds particular things of a node: kept from object to object, and the same when built anew."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy_testing.notation import NOW, world

WORLD = "node n1 cpu=9\nnode n2 cpu=9\njob a: 4 x cpu=1"
PODS = [obj for obj in world(WORLD) if isinstance(obj, core.Pod)]


def held(snapshot: Snapshot) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """By node: who holds something of it, and what is said about it."""
    return {
        name: [
            (str(snapshot.tasks.keys[item.row]), {k: v for k, v in item.notes.items() if k == names.GPU_INDEX})
            for item in assigned_pod
        ]
        for name, assigned_pod in zip(snapshot.nodes.names, snapshot.nodes.assigned_pods, strict=True)
        if assigned_pod
    }


def on(pod: core.Pod, node: str, card: str) -> core.Pod:
    """The pod as it is on a node, with a card if one is named."""
    notes = {**pod.metadata.annotations, **({names.GPU_INDEX: card} if card else {})}
    phase = "Running" if node else "Pending"
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        spec=replace(pod.spec, node_name=node),
        status=replace(pod.status, phase=phase),
    )


STEPS = st.tuples(
    st.integers(0, len(PODS) - 1), st.sampled_from(["", "n1", "n2", "gone", "over"]), st.sampled_from(["", "0", "1"])
)


@given(st.lists(STEPS, max_size=12))
@settings(deadline=None)
def test_assignments_depend_on_the_objects_alone(steps: list[tuple[int, str, str]]) -> None:
    """Whatever came before, the holders are those of a state built from what is there now."""
    state = State()
    now = {(type(item).__name__, item.metadata.key): item for item in world(WORLD)}
    for obj in now.values():
        state.upsert(obj)
    for number, where, card in steps:
        pod = PODS[number]
        key = ("Pod", pod.metadata.key)
        if where == "gone":
            if key in now:
                state.delete(now.pop(key))
            continue
        changed = on(pod, "n1" if where == "over" else where, card)
        if where == "over":
            changed = replace(changed, status=replace(changed.status, phase="Succeeded"))
        now[key] = changed
        state.upsert(changed)
    fresh = State()
    for obj in now.values():
        fresh.upsert(obj)
    assert held(state.snapshot(NOW)) == held(fresh.snapshot(NOW))


def test_assignments_of_a_pending_bind_count_until_it_is_observed_or_fails() -> None:
    state = State()
    for obj in world(WORLD):
        state.upsert(obj)
    state.assume(Plan((Bind("default/a-0", "n1", annotations={names.GPU_INDEX: "1"}),)))
    assert held(state.snapshot(NOW)) == {"n1": [("default/a-0", {names.GPU_INDEX: "1"})]}
    state.upsert(PODS[0])  # told again, not yet with its node
    assert held(state.snapshot(NOW)) == {"n1": [("default/a-0", {names.GPU_INDEX: "1"})]}
    state.forget("default/a-0")
    assert held(state.snapshot(NOW)) == {}
    state.assume(Plan((Bind("default/a-0", "n1", annotations={names.GPU_INDEX: "1"}),)))
    state.upsert(on(PODS[0], "n1", "0"))  # the server knows better
    assert held(state.snapshot(NOW)) == {"n1": [("default/a-0", {names.GPU_INDEX: "0"})]}


def test_assignments_of_a_node_are_the_same_object_until_one_changes() -> None:
    state = State()
    for obj in world(WORLD):
        state.upsert(obj)
    state.upsert(on(PODS[0], "n1", "0"))
    before = state.snapshot(NOW).nodes.assigned_pods
    state.upsert(on(PODS[1], "n2", "1"))
    after = state.snapshot(NOW).nodes.assigned_pods
    assert after[0] is before[0]
    assert after[1] is not before[1]
