"""Shapes that take turns are kept abreast, and decide as each by itself would."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.framework.plugin import Scope
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.placement import score_cache
from volcanopy.scheduler.session.session import Session
from volcanopy.testing import reference
from volcanopy.testing.notation import NOW, config, snapshot, world

PLUGINS = "gang, priority, predicates, proportion, nodeorder, binpack"
SETS = (PLUGINS, "gang, predicates, binpack", "gang, predicates, nodeorder", "gang, nodeorder, binpack, drf")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """From the second kind on, so that small worlds do it too."""
    least, score_cache.LEAST = score_cache.LEAST, 2
    yield
    score_cache.LEAST = least


@st.composite
def crowds(draw: st.DrawFn) -> str:
    """Many small jobs of a few shapes, with now and then a gang between them, on nodes that are not all alike."""
    lines = []
    for number in range(draw(st.integers(1, 6))):
        cpu, memory = draw(st.sampled_from((2, 4, 7))), draw(st.sampled_from((4, 9)))
        lines.append(f"node n{number} cpu={cpu} memory={memory}Gi pods={draw(st.sampled_from((3, 9)))}")
    shapes = draw(
        st.lists(st.tuples(st.sampled_from((0, 300, 700, 1100)), st.sampled_from((0, 1, 3))), min_size=2, max_size=5)
    )
    for number in range(draw(st.integers(2, 25))):
        cpu, memory = draw(st.sampled_from(shapes))
        size = draw(st.sampled_from((1, 1, 1, 1, 4)))
        asks = f"cpu={cpu}m memory={memory}Gi"
        lines.append(f"job j{number} min={size}: {size} x {asks}")
    return "\n".join(lines)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(crowds(), st.sampled_from(SETS))
def test_turns_of_many_shapes_end_as_if_each_asked_for_itself(text: str, plugins: str) -> None:
    seen = snapshot(text)
    fast, slow = (Session(seen, config(plugins)) for _ in range(2))
    slow.placement = reference.OneByOne(slow.ledger, slow.hooks)
    actions = reference.actions()
    for name in ("enqueue", "allocate", "backfill"):
        actions[name](fast, {})
        actions[name](slow, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(crowds(), st.sampled_from(SETS), st.data())
def test_the_quick_way_to_a_score_gives_the_very_same_number(text: str, plugins: str, data: st.DataObject) -> None:
    session = Session(snapshot(text), config(plugins))
    rows = np.flatnonzero(session.ledger.status == Status.PENDING).tolist()
    tasks = [TaskView(session.ledger, row) for row in rows]
    tasks = [task for task in tasks if session.hooks.scope(task) is Scope.COLUMNS and not task.best_effort]
    scores = session.hooks.scores_of_many(tasks) if tasks else None
    if scores is None:
        return
    nodes = len(session.snapshot.nodes)
    with session.statement() as statement:
        for row in data.draw(st.lists(st.sampled_from(rows), unique=True)):
            statement.allocate(row, data.draw(st.integers(0, nodes - 1)))
        for node in range(nodes):
            quick = sum((score(node) for score in scores), start=np.zeros(len(tasks)))
            view = NodesView(session.ledger, np.array([node]))
            assert quick.tolist() == [float(session.hooks.node_order(task, view)[0]) for task in tasks]


def test_the_default_plugins_have_a_quick_way() -> None:
    """Else the tests above would compare nothing."""
    lines = ["node n1 cpu=8 memory=8Gi pods=20", "node n2 cpu=8 memory=8Gi pods=20"]
    lines += [f"job j{number}: 1 x cpu={1 + number % 3} memory=1Gi" for number in range(9)]
    session = Session(snapshot("\n".join(lines)), config(PLUGINS))
    asked = 0
    renews = session.placement._abreast.renews  # type: ignore[union-attr]

    def counted(answers: score_cache.Answers) -> bool:
        nonlocal asked
        asked += (renewed := renews(answers))
        return renewed

    session.placement._abreast.renews = counted  # type: ignore[method-assign, union-attr]
    reference.actions()["allocate"](session, {})
    assert asked >= 4


def test_images_on_nodes_count_in_the_quick_way() -> None:
    state = State()
    lines = ["node n1 cpu=8 memory=8Gi pods=20", "node n2 cpu=8 memory=8Gi pods=20"]
    for thing in world("\n".join([*lines, *(f"job j{number}: 1 x cpu={1 + number % 3}" for number in range(6))])):
        match thing:
            case core.Node() if thing.metadata.name == "n2":
                images = (core.Image(names=("big:1",), size_bytes=900 * 2**20),)
                state.upsert(replace(thing, status=replace(thing.status, images=images)))
            case core.Pod():
                containers = tuple(replace(one, image="big:1") for one in thing.spec.containers)
                state.upsert(replace(thing, spec=replace(thing.spec, containers=containers)))
            case _:
                state.upsert(thing)
    session = Session(state.snapshot(NOW), config(PLUGINS))
    tasks = [TaskView(session.ledger, row) for row in np.flatnonzero(session.ledger.status == Status.PENDING).tolist()]
    scores = session.hooks.scores_of_many(tasks)
    assert scores is not None
    both = [sum((score(node) for score in scores), start=np.zeros(len(tasks))) for node in (0, 1)]
    for node in (0, 1):
        view = NodesView(session.ledger, np.array([node]))
        assert both[node].tolist() == [float(session.hooks.node_order(task, view)[0]) for task in tasks]
    assert (both[1] > both[0]).all()
