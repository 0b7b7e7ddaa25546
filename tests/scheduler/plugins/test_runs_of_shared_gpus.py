"""Gangs whose pods share GPUs are placed, and get cards, as if each pod were placed by itself."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import configured, seen
from tests.scheduler.reference.placement import actions
from volcanopy.api import names
from volcanopy.scheduler.core import open_session
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy_policies.devices.cards.card_usage import SessionCards
from volcanopy_testing.uncached import UncachedPlacement

MEMORY, NUMBER = names.GPU_MEMORY, names.GPU_NUMBER
PLUGINS: dict[str, dict[str, Any]] = {"priority": {}, "gang": {}, "predicates": {}, "binpack": {}}
WAYS: dict[str, dict[str, Any]] = {
    "memory": {"deviceshare.GPUSharingEnable": True},
    "number": {"deviceshare.GPUNumberEnable": True},
    "vgpu": {"deviceshare.VGPUEnable": True},
}
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 2},
    {"deviceshare.SchedulePolicy": "spread", "deviceshare.ScheduleWeight": 2},
    {"deviceshare.GPUExclusiveRules": [{"app": "a"}]},
)
ANNOTATIONS = ("", "", "note.volcano.sh/vgpu-use-gputype=A", f"note.{names.VGPU_GROUP_POLICY}=spread")


@st.composite
def clusters(draw: st.DrawFn, way: str) -> str:
    """Nodes of one or two models with few cards, of which running pods have a part, and gangs of equal pods of a few shapes."""
    lines = []
    models = [
        (draw(st.sampled_from((5, 8, 12))), draw(st.lists(st.sampled_from("AB"), min_size=1, max_size=4)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    in_use = draw(st.integers(0, 3))
    for number in range(draw(st.integers(1, 9))):
        cpu, types = models[number % len(models)]
        count = len(types)
        register = ":".join(f"g{number}-{card},4,20,{of_card},true,hami-core" for card, of_card in enumerate(types))
        lines.append(
            f"node n{number} cpu={cpu} {MEMORY}={20 * count} {NUMBER}={count} "
            f"{names.VGPU_NUMBER}=40 {names.VGPU_MEMORY}=1000 {names.VGPU_CORES}=1000 note.{names.VGPU_REGISTER}='{register}:'"
        )
        if way == "memory" and in_use < count:
            lines.append(f"job r{number}: 1 x cpu=1 on=n{number} {MEMORY}=8 note.{names.GPU_INDEX}={in_use}")
    for number in range(draw(st.integers(1, 3))):
        size, cpu = draw(st.integers(1, 30)), draw(st.sampled_from((1, 1, 2, 3)))
        memory, cards = draw(st.sampled_from((3, 7, 10))), draw(st.sampled_from((1, 1, 2)))
        request = {
            "memory": f"{MEMORY}={memory}",
            "number": f"{NUMBER}={cards}",
            "vgpu": f"{names.VGPU_NUMBER}={cards} {names.VGPU_MEMORY}={memory} {draw(st.sampled_from(ANNOTATIONS))}",
        }[way]
        label = draw(st.sampled_from(("", "label.app=a")))
        lines.append(
            f"job j{number} min={draw(st.integers(1, max(1, size // 2)))}: {size} x cpu={cpu} {request} {label}"
        )
    return "\n".join(lines)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Snapshot, SchedulerConfig]:
    """A snapshot and a configuration."""
    way = draw(st.sampled_from(sorted(WAYS)))
    plugins = PLUGINS | {"deviceshare": WAYS[way] | draw(st.sampled_from(ARGUMENTS))}
    plugins |= draw(st.sampled_from(({}, {"fragmentation": {}})))
    return seen(draw(clusters(way))), configured(plugins)


@examples(150)
@given(worlds())
def test_gangs_that_share_gpus_are_placed_as_pod_by_pod(of_cluster: tuple[Snapshot, SchedulerConfig]) -> None:
    fast, slow = (open_session(*of_cluster) for _ in range(2))
    actions()["allocate"](fast, {})
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    with patch.object(SessionCards, "state", lambda *_: object()):  # nothing is kept
        actions()["allocate"](slow, {})
    assert fast.effects == slow.effects


def test_pods_are_placed_together_once_their_states_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the test above has runs: two full nodes, of which the first is filled pod by pod."""
    runs: list[int] = []
    choose_run = Placement.choose_run

    def noted(*arguments: Any) -> Any:
        nodes = choose_run(*arguments)
        runs.append(len(nodes))
        return nodes

    monkeypatch.setattr(Placement, "choose_run", noted)
    nodes = "\n".join(f"node n{number} cpu=32 {MEMORY}=40 {NUMBER}=2" for number in range(3))
    session = open_session(
        seen(f"{nodes}\njob a: 24 x cpu=1 {MEMORY}=5"), configured(PLUGINS | {"deviceshare": WAYS["memory"]})
    )
    actions()["allocate"](session, {})
    assert len(session.effects) == 24
    assert max(runs) >= 15


def test_a_restored_pod_keeps_the_cards_that_it_is_bound_with() -> None:
    """Also where others of its node are restored together with it, and the first free card is another."""
    text = f"""
        node n1 cpu=32 {MEMORY}=40 {NUMBER}=4
        job a: 4 x cpu=1 {MEMORY}=10
    """
    session = open_session(seen(text), configured(PLUGINS | {"deviceshare": WAYS["memory"]}))
    actions()["allocate"](session, {})
    cards = {bind.pod: bind.annotations[names.GPU_INDEX] for bind in session.effects if isinstance(bind, Bind)}
    assert sorted(cards.values()) == ["0", "1", "2", "3"]
    rows = np.flatnonzero(session.ledger.status == Status.BINDING)
    with session.statement() as statement:
        for row in rows.tolist():
            statement.withdraw_all(np.array([row]))
        session.hooks.annotate(session.cluster.task(int(rows[0])), 0)  # follows the changes
    tasks = [session.cluster.task(row) for row in rows.tolist()]
    assert {task.key: session.hooks.annotate(task, 0)[names.GPU_INDEX] for task in tasks} == cards
