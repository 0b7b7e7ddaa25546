"""task-topology: affinity and anti-affinity between the tasks of a job."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, argument_error, made, seen
from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import TasksView
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policies.nodes.task_topology import TaskTopology, TaskTopologyArguments, topology

KEY = "note.volcanopy.io/task-topology"
NEAR = f"{KEY}-affinity=ps,worker"
APART = f"{KEY}-anti-affinity=ps"
PLUGINS: dict[str, dict[str, Any]] = {"task-topology": {}, "gang": {}}


def scene(text: str) -> Scene:
    return Scene(seen(text), PLUGINS)


def places(snapshot: Snapshot) -> dict[str, str]:
    """Return the nodes of bound pods, by pod name without the job name."""
    return {effect.pod.removeprefix("default/a-"): effect.node for effect in made(snapshot, PLUGINS).of(Bind)}


def test_affine_tasks_are_placed_together_and_anti_affine_tasks_apart() -> None:
    """Two servers with anti-affinity, each with the workers that fit its node."""
    snapshot = seen(
        f"""
        node n1 cpu=4
        node n2 cpu=4
        node n3 cpu=4
        job a '{NEAR}' '{APART}': 2 x cpu=1 role=ps, 4 x cpu=1 role=worker
        """
    )
    result = places(snapshot)
    assert result["ps-0"] != result["ps-1"]
    assert {result[f"worker-{number}"] for number in range(4)} == {result["ps-0"], result["ps-1"]}
    assert sorted(result.values()).count(result["ps-0"]) == sorted(result.values()).count(result["ps-1"]) == 3


def test_tasks_with_self_affinity_fill_one_node() -> None:
    text = f"node n1 cpu=2\nnode n2 cpu=4\nnode n3 cpu=4\njob a {KEY}-affinity=worker: 4 x cpu=1 role=worker"
    assert set(places(seen(text)).values()) == {"n2"}


def test_tasks_join_running_tasks_of_their_bucket() -> None:
    text = f"node n1 cpu=4\nnode n2 cpu=4\njob a min=1 '{NEAR}': 1 x cpu=1 role=ps on=n2, 2 x cpu=1 role=worker"
    assert scene(text).scores("a-worker-0") == {"n1": round(100 * 2 / 3, 6), "n2": 100.0}
    assert places(seen(text)) == {"worker-0": "n2", "worker-1": "n2"}


def test_only_the_part_of_a_bucket_that_fits_a_node_counts() -> None:
    text = f"node n1 cpu=2\nnode n2 cpu=4\nnode n3 cpu=1 memory=1Gi\njob a {KEY}-affinity=w: 1 x cpu=2 role=w, 2 x cpu=1 role=w"
    stage = scene(text)
    assert stage.scores("a-w-0") == {"n1": round(100 / 3, 6), "n2": 100.0, "n3": 0.0}
    assert stage.scores("a-w-1") == {"n1": round(100 / 3, 6), "n2": 100.0, "n3": round(100 / 3, 6)}


def test_the_weight_multiplies() -> None:
    text = f"node n1 cpu=4\njob a {KEY}-affinity=w: 2 x cpu=1 role=w"
    assert Scene(seen(text), {"task-topology": {"task-topology.weight": 7}}).scores("a-w-0") == {"n1": 700.0}
    assert Scene(seen(text), {"task-topology": {"task-topology.weight": 0}}).scores("a-w-0") == {"n1": 0.0}


def test_undone_placements_do_not_count() -> None:
    """A node where a server was tried and withdrawn has the same score for the other server."""
    stage = scene(f"node n1 cpu=4\nnode n2 cpu=4\njob a '{APART}': 2 x cpu=1 role=ps")
    before = stage.scores("a-ps-1")
    with stage.session.statement() as statement:
        statement.allocate(stage.task("a-ps-0").row, stage.node("n1"))
        tried = stage.scores("a-ps-1")
    assert before == {"n1": 100.0, "n2": 100.0}
    assert tried == {"n1": 0.0, "n2": 100.0}
    assert stage.scores("a-ps-1") == before


def test_tasks_and_jobs_without_groups_are_not_scored() -> None:
    text = (
        f"node n1 cpu=4\njob a '{NEAR}': 1 x cpu=1 role=ps, 1 x cpu=1 role=worker, 1 x cpu=1 role=log\njob b: 1 x cpu=1"
    )
    stage = scene(text)
    assert stage.scores("a-log-0") == stage.scores("b-0") == {"n1": 0.0}
    assert not stage.session.hooks.couples_nodes(stage.task("b-0"))
    assert stage.session.hooks.couples_nodes(stage.task("a-ps-0"))


@pytest.mark.parametrize("groups", ["ps,nobody", "ps,ps", ";", ""])
def test_a_topology_with_unknown_or_repeated_tasks_is_ignored(groups: str) -> None:
    stage = scene(f"node n1 cpu=4\njob a '{KEY}-affinity={groups}': 1 x cpu=1 role=ps, 1 x cpu=1 role=worker")
    assert stage.scores("a-ps-0") == {"n1": 0.0}


# Order


def order(text: str) -> list[str]:
    stage = scene(text)
    (tasks,) = stage.session.pending_tasks().values()
    return [str(stage.snapshot.tasks.keys[row]).removeprefix("default/a-") for row in tasks.tolist()]


def test_tasks_are_ordered_by_bucket_and_then_by_affinity() -> None:
    """Servers have anti-affinity to servers (4), workers affinity to servers (3); tasks without a group are last."""
    text = f"node n1 cpu=9\njob a '{NEAR}' '{APART}': 1 x cpu=1 role=log, 3 x cpu=1 role=worker, 2 x cpu=1 role=ps"
    assert order(text) == ["ps-0", "worker-0", "worker-2", "ps-1", "worker-1", "log-0"]


def test_the_order_given_by_the_user_comes_first() -> None:
    text = f"node n1 cpu=9\njob a '{NEAR}' {KEY}-task-order=worker,ps: 1 x cpu=1 role=ps, 2 x cpu=1 role=worker"
    assert order(text) == ["worker-0", "worker-1", "ps-0"]


def test_jobs_without_a_topology_keep_their_order() -> None:
    assert order("node n1 cpu=9\njob a: 2 x cpu=1 role=ps, 1 x cpu=1 role=worker") == ["ps-0", "worker-0", "ps-1"]


def test_the_weight_of_a_template_is_that_of_its_strictest_group() -> None:
    notes = {
        "volcanopy.io/task-topology-affinity": "a,b;c",
        "volcanopy.io/task-topology-anti-affinity": "b;c,d",
        "volcanopy.io/task-topology-task-order": "d",
    }
    result = topology(core.PodGroup(metadata=core.Meta(name="g", annotations=notes)), "abcd")
    assert result is not None
    assert sorted(result.rank, key=result.rank.__getitem__) == ["d", "b", "a", "c"]
    assert result.together == {frozenset("ab"), frozenset("c")}
    assert result.apart == {frozenset("b"), frozenset("cd")}


def test_invalid_arguments_are_rejected_with_a_message() -> None:
    assert argument_error("task-topology", {"task-topology.weight": -1}).startswith(
        "task-topology.weight: input should be"
    )
    assert "did you mean 'task-topology.weight'?" in argument_error("task-topology", {"task-topology.wieght": 1})


counts = st.integers(0, 3)


@examples(60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.tuples(counts, counts, counts).filter(any),
    st.sampled_from(["a,b", "a,b;c", "a;b;c", ""]),
    st.sampled_from(["", "a", "b,c", "a;b"]),
    st.data(),
)
def test_vectorised_counts_equal_counts_per_node(
    rooms: list[int], sizes: tuple[int, int, int], near: str, away: str, data: st.DataObject
) -> None:
    """After any placements: tasks of the bucket on the node, plus those that still fit, minus tasks with anti-affinity."""
    parts = [f"{size} x cpu={cpu} role={name}" for name, cpu, size in zip("abc", (1, 2, 1), sizes, strict=True) if size]
    nodes = [f"node n{number} cpu={room}" for number, room in enumerate(rooms)]
    stage = scene(
        "\n".join([*nodes, f"job a '{KEY}-affinity={near}' '{KEY}-anti-affinity={away}': {', '.join(parts)}"])
    )
    plugin = TaskTopology(TaskTopologyArguments(), stage.session.cluster)
    members = list(range(len(stage.snapshot.tasks)))
    for row in members[:-1]:
        node = data.draw(st.integers(-1, len(rooms) - 1))
        if node >= 0:
            statement = stage.session.statement()
            statement.allocate(row, node)
            statement.keep()
    ledger, asked = stage.session.ledger, stage.session.cluster.task(members[-1])
    scores = plugin.score(TasksView([asked]), stage.nodes)[0].tolist()
    team = plugin._team(asked)
    bucket = None if team is None else next((item for item in team.buckets if asked.row in item.tasks), None)
    if team is None or bucket is None:
        assert not any(scores)
        return
    for node, score in enumerate(scores):
        room, fitting = int(ledger.future[0, node]), 0
        for row in [asked.row, *(row for row in bucket.tasks if row != asked.row and ledger.node[row] < 0)]:
            room -= int(ledger.request(row)[0])
            if room < 0:
                break
            fitting += 1
        placed = sum(ledger.node[row] == node for row in bucket.tasks)
        own = stage.snapshot.roles.names[asked.role]
        foes = [
            row
            for row in members
            if ledger.node[row] == node
            and frozenset({own, stage.snapshot.roles.names[stage.snapshot.tasks.role[row]]}) in team.topology.apart
        ]
        expected = (placed + fitting - len(foes)) * 100 / team.largest if fitting else 0
        assert score == pytest.approx(expected, abs=1e-5)
