"""What policies read of tasks, nodes and the session decides which answers about nodes are shared, and how long they are valid."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pytest

from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import NoArguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes
from volcanopy_testing.notation import config, snapshot

WORLD = "node n1 cpu=8\nnode n2 cpu=8\njob a: 2 x cpu=1 note.side=left, 2 x cpu=1 note.side=right"


class Probe(Plugin[NoArguments], Nodes):
    """Reads the session in its score, in the way that a subclass defines."""

    name: ClassVar[str] = "probe"

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        return np.zeros((len(tasks), len(nodes)))


class ReadsColumns(Probe):
    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        return nodes.idle["cpu"] - tasks.request["cpu"] * 1.0


class ReadsLedger(Probe):
    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        return np.full((len(tasks), len(nodes)), float(self.cluster.ledger.moves))


class ReadsJobs(Probe):
    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        return np.full((len(tasks), len(nodes)), float(self.cluster.job(0).ready_count))


class ReadsUnaffected(Probe):
    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        with self.cluster.reads.unaffected():
            return np.full((len(tasks), len(nodes)), float(self.cluster.ledger.evictions == {}))


class Couples(Probe):
    def couples_nodes(self, task: TaskView) -> bool:
        return True


class ReadsPod(Probe):
    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        side = task.pod.metadata.annotations.get("side")
        return [NodeRejection("node(s) were on the other side", np.arange(len(nodes)) == (side == "left"), final=True)]


class ReadsValue(Probe):
    def open(self) -> None:
        self._side = self.task_value(lambda task: task.pod.metadata.annotations.get("side"))

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        other = self.cluster.snapshot.nodes.index["n2" if self._side(task) == "left" else "n1"]
        return [NodeRejection("node(s) were on the other side", nodes.rows == other, final=True)]


def session_with(policy: type[Probe]) -> Session:
    registry = builtin().with_plugins(policy)
    return Session(snapshot(WORLD), config("gang, probe", registry=registry))


@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        (Probe, Scope.STATIC),
        (ReadsColumns, Scope.COLUMNS),
        (ReadsUnaffected, Scope.COLUMNS),
        (ReadsLedger, Scope.NODE),
        (ReadsJobs, Scope.NODE),
        (Couples, Scope.CLUSTER),
    ],
)
def test_the_scope_of_answers_follows_from_what_is_read(policy: type[Probe], scope: Scope) -> None:
    session = session_with(policy)
    assert session.hooks.scope(session.cluster.task(0)) is scope


def test_a_policy_that_reads_the_pod_of_a_kind_of_tasks_is_an_error() -> None:
    with pytest.raises(
        PluginError, match=r"plugin .probe.: hook .reject. failed: .* must be a value that open makes with task_value"
    ):
        schedule(snapshot(WORLD), config("gang, probe", registry=builtin().with_plugins(ReadsPod)))


@pytest.mark.parametrize("topology", ["", " topology=hard:1"])
def test_equal_tasks_with_different_values_are_placed_by_their_values(topology: str) -> None:
    """Also where the job is placed by its network topology."""
    world = WORLD.replace("job a:", f"job a{topology}:") + ("\nhypernode r1 tier=1: n1 n2" if topology else "")
    plan = schedule(snapshot(world), config("gang, probe", registry=builtin().with_plugins(ReadsValue)))
    placed = {bind.pod: bind.node for bind in plan.of(Bind)}
    assert placed == {"default/a-0": "n1", "default/a-1": "n1", "default/a-2": "n2", "default/a-3": "n2"}
