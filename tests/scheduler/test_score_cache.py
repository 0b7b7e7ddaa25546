"""Cached scores equal those of the reference implementation, and blocks score like single pairs."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.reference import placement
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.engine import defaults, score_table
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.scheduler.policy.roles import Nodes
from volcanopy_testing.notation import NOW, all_policies, config, snapshot, world
from volcanopy_testing.uncached import UncachedPlacement

PLUGINS = "gang, priority, predicates, proportion, nodeorder, binpack"
SETS = (PLUGINS, "gang, predicates, binpack", "gang, predicates, nodeorder", "gang, nodeorder, binpack, drf")


@pytest.fixture(autouse=True)
def small_tables() -> Iterator[None]:
    """From the second shape on, so that small worlds use a table."""
    least, defaults.TABLE_LEAST = defaults.TABLE_LEAST, 2
    yield
    defaults.TABLE_LEAST = least


@st.composite
def crowds(draw: st.DrawFn) -> str:
    """Many small jobs of a few shapes and some gangs, on different nodes."""
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


@examples(30)
@given(crowds(), st.sampled_from(SETS))
def test_alternating_shapes_are_placed_as_by_the_reference(text: str, plugins: str) -> None:
    seen = snapshot(text)
    fast, slow = (Session(seen, config(plugins)) for _ in range(2))
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    actions = placement.actions()
    for name in ("enqueue", "allocate", "backfill"):
        actions[name](fast, {})
        actions[name](slow, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))


@st.composite
def gangs_with_terms(draw: st.DrawFn) -> list[Object]:
    """Nodes in zones and racks, some without, and gangs whose pods have terms about pods of their own or of another gang."""
    lines = []
    for number in range(draw(st.integers(2, 7))):
        labels = draw(st.sampled_from((f"x/zone={number % 2} x/rack={number % 3}", f"x/rack={number % 3}")))
        lines.append(f"node n{number} cpu={draw(st.sampled_from((2, 4)))} {labels} x/host=n{number}")
    count = draw(st.integers(1, 3))
    lines += [f"job j{number} min={draw(st.integers(1, 6))}: 6 x cpu=1 label.app=j{number}" for number in range(count)]
    specs = [draw(terms(count)) | draw(terms(count)) for _ in range(count)]
    ports = [draw(st.sampled_from(((), (), (core.ContainerPort(host_port=80),)))) for _ in range(count)]
    objects: list[Object] = []
    for item in world("\n".join(lines)):
        if isinstance(item, core.Pod):
            number = int(item.metadata.labels["app"][1:])
            containers = tuple(replace(container, ports=ports[number]) for container in item.spec.containers)
            objects.append(replace(item, spec=replace(item.spec, containers=containers, **specs[number])))
        else:
            objects.append(item)
    return objects


@st.composite
def terms(draw: st.DrawFn, count: int) -> dict[str, Any]:
    """The fields of a specification with one required term about the pods of one of so many gangs."""
    of_app = core.LabelSelector(match_labels={"app": f"j{draw(st.integers(0, count - 1))}"})
    key = draw(st.sampled_from(("x/zone", "x/rack", "x/host")))
    affinity = core.PodAffinity(required=(core.PodAffinityTerm(topology_key=key, label_selector=of_app),))
    spread = core.TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 2)),
        topology_key=key,
        when_unsatisfiable="DoNotSchedule",
        label_selector=of_app,
        min_domains=draw(st.sampled_from((None, 2, 4))),
    )
    near = {"affinity": core.Affinity(pod_affinity=affinity)}
    away = {"affinity": core.Affinity(pod_anti_affinity=affinity)}
    return draw(st.sampled_from((near, away, away, {"topology_spread_constraints": (spread,)}, {})))


@examples(80)
@given(gangs_with_terms(), st.sampled_from(SETS))
def test_pods_with_terms_about_pods_are_placed_as_by_the_reference(objects: list[Object], plugins: str) -> None:
    seen = snapshot("", objects)
    fast, slow = (Session(seen, config(plugins)) for _ in range(2))
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    for session in (fast, slow):
        placement.actions()["allocate"](session, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))


@examples(30)
@given(crowds(), st.sampled_from(SETS), st.data())
def test_a_block_of_tasks_scores_as_each_task_on_each_node(text: str, plugins: str, data: st.DataObject) -> None:
    session = Session(snapshot(text), config(plugins))
    rows = np.flatnonzero(session.ledger.status == Status.PENDING).tolist()
    nodes = len(session.snapshot.nodes)
    with session.statement() as statement:
        for row in data.draw(st.lists(st.sampled_from(rows), unique=True)):
            statement.allocate(row, data.draw(st.integers(0, nodes - 1)))
        assert_blocks_agree(session, [TaskView(session.ledger, row) for row in rows])


def assert_blocks_agree(session: Session, tasks: list[TaskView]) -> None:
    """One call for the block, one for each task, one for each node, and one for each pair give the same numbers."""
    order, ledger = session.hooks.score, session.ledger
    every = [NodesView(ledger, np.array([row])) for row in range(len(session.snapshot.nodes))]
    block = order(TasksView(tasks), session.cluster.nodes()).tolist()
    assert block == [order(TasksView([task]), session.cluster.nodes())[0].tolist() for task in tasks]
    assert block == np.concatenate([order(TasksView(tasks), view) for view in every], axis=1).tolist()
    assert block == [[float(order(TasksView([task]), view)[0, 0]) for view in every] for task in tasks]


def test_alternating_shapes_share_a_score_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the tests above use the cache."""
    lines = ["node n1 cpu=8 memory=8Gi pods=20", "node n2 cpu=8 memory=8Gi pods=20"]
    lines += [f"job j{number}: 1 x cpu={1 + number % 3} memory=1Gi" for number in range(9)]
    session = Session(snapshot("\n".join(lines)), config(PLUGINS))
    shared: list[bool] = []
    refresh = score_table.ScoreTable.refresh

    def counted(table: score_table.ScoreTable, entry: score_table.NodeScores) -> bool:
        shared.append(refresh(table, entry))
        return shared[-1]

    monkeypatch.setattr(score_table.ScoreTable, "refresh", counted)
    placement.actions()["allocate"](session, {})
    assert sum(shared) >= 4


class Mixed(Nodes, Plugin[NoArguments]):
    """Scores by cpu, and on nodes with little of it by the number of pods too."""

    name: ClassVar[str] = "mixed"

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        idle = nodes.idle["cpu"] - tasks.request["cpu"]
        pods = nodes.used.values[2] * 10.0 if (idle < 3000).any() else 0.0
        return idle / 1000.0 + np.where(idle < 3000, pods, 0.0)


MIXED = Registry({**all_policies().plugins, "mixed": Mixed}, all_policies().actions)


@examples(40)
@given(crowds(), st.sampled_from(("gang, predicates, mixed", "gang, predicates, mixed, binpack")))
def test_a_plugin_may_read_other_resources_of_other_nodes(text: str, plugins: str) -> None:
    seen = snapshot(text)
    fast, slow = (Session(seen, config(plugins, registry=MIXED)) for _ in range(2))
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    placement.actions()["allocate"](fast, {})
    placement.actions()["allocate"](slow, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))


@pytest.mark.parametrize(
    ("plugins", "equal"), [("gang, predicates, binpack", True), ("gang, predicates, mixed", False)]
)
def test_nodes_share_scores_where_they_differ_only_in_what_no_plugin_reads(plugins: str, equal: bool) -> None:
    """Two pods of one cpu take as much as one of two, and count as one more."""
    lines = ["node n1 cpu=4 memory=8Gi pods=20", "node n2 cpu=4 memory=8Gi pods=20"]
    lines += [f"job {name}: {count} x cpu={cpu} memory={cpu}Gi" for name, count, cpu in (("a", 2, 1), ("b", 1, 2))]
    session = Session(snapshot("\n".join(lines)), config(plugins, registry=MIXED))
    rows = np.flatnonzero(session.ledger.status == Status.PENDING).tolist()
    sizes = {row: int(TaskView(session.ledger, row).request["cpu"]) for row in rows}
    with session.statement() as statement:
        for row, cpu in sizes.items():
            statement.allocate(row, 0 if cpu == 1000 else 1)
        view = NodesView(session.ledger, np.array([0]))
        session.hooks.score(TasksView([TaskView(session.ledger, rows[0])]), view)
        read = session.ledger.positions_of(view.read)
        keys = [session.ledger.columns_of(node, read) for node in (0, 1)]
    assert (keys[0] == keys[1]) is equal
    assert not view.rows_read


def test_images_on_nodes_count_in_a_block() -> None:
    state = State()
    lines = ["node n1 cpu=8 memory=8Gi pods=20", "node n2 cpu=8 memory=8Gi pods=20"]
    for obj in world("\n".join([*lines, *(f"job j{number}: 1 x cpu={1 + number % 3}" for number in range(6))])):
        match obj:
            case core.Node() if obj.metadata.name == "n2":
                images = (core.Image(names=("big:1",), size_bytes=900 * 2**20),)
                state.upsert(replace(obj, status=replace(obj.status, images=images)))
            case core.Pod():
                containers = tuple(replace(container, image="big:1") for container in obj.spec.containers)
                state.upsert(replace(obj, spec=replace(obj.spec, containers=containers)))
            case _:
                state.upsert(obj)
    session = Session(state.snapshot(NOW), config(PLUGINS))
    tasks = [TaskView(session.ledger, row) for row in np.flatnonzero(session.ledger.status == Status.PENDING).tolist()]
    assert_blocks_agree(session, tasks)
    scores = session.hooks.score(TasksView(tasks), session.cluster.nodes())
    assert (scores[:, 1] > scores[:, 0]).all()
