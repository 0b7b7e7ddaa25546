"""Runs of equal tasks are placed like single tasks, with plugins that read more than shapes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, seen
from tests.scheduler.reference.placement import actions
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Plan
from volcanopy_testing.notation import NOW
from volcanopy_testing.uncached import UncachedPlacement

PLUGINS: dict[str, dict[str, Any]] = {
    "resource-strategy-fit": {
        "resources": {"cpu": {"type": "MostAllocated"}, "memory": {"weight": 2}, "nvidia*": {"type": "MostAllocated"}},
        "sra": {"enable": True, "resources": "nvidia.com/gpu"},
        "proportional": {"enable": True, "resources": "nvidia.com/gpu"},
    },
    "tdm": {"tdm.revocable-zone.day": "00:00-12:00", "tdm.revocable-zone.night": "12:00-00:00"},
    "task-topology": {},
    "usage": {"thresholds": {"cpu": 90, "mem": 90}},
}
NOTES = (
    "",
    "",
    "note.volcanopy.io/revocable-zone=*",
    "note.volcanopy.io/resource-strategy-scoring-type=MostAllocated 'note.volcanopy.io/resource-strategy-weight={\"memory\": 1}'",
)
TOPOLOGIES = (
    "",
    "note.volcanopy.io/task-topology-affinity=a",
    "note.volcanopy.io/task-topology-anti-affinity=a",
    "note.volcanopy.io/task-topology-affinity=a,b note.volcanopy.io/task-topology-anti-affinity=b",
)


@st.composite
def crowds(draw: st.DrawFn) -> str:
    """Nodes of several kinds, and jobs whose tasks differ only in annotations."""
    lines = []
    for number in range(draw(st.integers(1, 4))):
        zone = draw(st.sampled_from(["", "", "volcanopy.io/revocable-zone=day", "volcanopy.io/revocable-zone=night"]))
        gpu = draw(st.sampled_from(["", "gpu=2"]))
        lines.append(f"node n{number} cpu={draw(st.integers(2, 8))} memory={draw(st.integers(4, 16))}Gi {gpu} {zone}")
    for number in range(draw(st.integers(1, 3))):
        parts = []
        for role in "ab":
            asked = f"cpu={draw(st.integers(1, 2))} memory=1Gi{draw(st.sampled_from(['', '', ' gpu=1']))}"
            notes = draw(st.lists(st.sampled_from(NOTES), max_size=2))
            parts += [f"{draw(st.integers(1, 3))} x {asked} role={role} {note}" for note in notes]
        if parts:
            least, topology = draw(st.integers(1, 4)), draw(st.sampled_from(TOPOLOGIES))
            lines.append(f"job j{number} min={least} {topology}: {', '.join(parts)}")
    return "\n".join(lines)


@examples(60)
@given(crowds(), st.sets(st.sampled_from(sorted(PLUGINS)), min_size=1), st.integers(0, 90))
def test_a_run_is_placed_as_single_tasks(text: str, chosen: set[str], load: int) -> None:
    snapshot = seen(text, {"n0": (load, 10), "n1": (30, load), "n2": (0, 0)}, now=NOW.replace(hour=10))
    plugins: dict[str, dict[str, Any]] = {"gang": {}, "predicates": {}} | {
        name: PLUGINS[name] for name in sorted(chosen)
    }
    fast, slow = Scene(snapshot, plugins).session, Scene(snapshot, plugins).session
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    for session in (fast, slow):
        actions()["allocate"](session, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))
    assert violations(snapshot, Plan(tuple(fast.effects), 0, "test"), plugins) == []
