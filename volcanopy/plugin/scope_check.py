"""Whether what a plugin declares about its results for nodes is true of them.

1. Note the results of the plugin for some waiting tasks on all nodes.
2. Place or evict a task. The results of the others may change only as the recorded scope allows.
3. Repeat this.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from volcanopy.scheduler.core import open_session
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.hook_table import implemented
from volcanopy.scheduler.policy.plugin import NodeRejection

TASKS, CHANGES = 6, 6
"""The most waiting tasks whose results are compared, and the number of changes of a cluster state."""


_EXCEPTIONS = {
    Scope.STATIC: "no node",
    Scope.COLUMNS: "the node of a placement, by its columns",
    Scope.NODE: "the node of a placement",
}
"""The nodes for which a placement changes the results, by the recorded scope."""


class Results(NamedTuple):
    """What a plugin returns for one task: per node its rejections, and its score."""

    rejections: tuple[frozenset[tuple[Any, ...]], ...]
    scores: tuple[float, ...]

    def difference(self, other: "Results", node: int) -> str:
        """Return the hook whose results for a node differ, empty if none does."""
        if self.rejections[node] != other.rejections[node]:
            return "reject"
        return "" if math.isclose(self.scores[node], other.scores[node], abs_tol=1e-9) else "score"


def scope_faults(seen: Snapshot, config: SchedulerConfig, plugin: Any, rng: Random) -> Iterator[str]:
    """Yield the declarations that do not hold in a cluster state; ``config`` has this plugin alone."""
    if not implemented(plugin) & {"reject", "score"} or not len(seen.nodes):
        return
    session = open_session(seen, config)
    rows = np.flatnonzero(session.ledger.status == Status.PENDING).tolist()
    waiting = [TaskView(session.ledger, row) for row in rng.sample(rows, min(len(rows), TASKS))]
    with session.statement() as statement:
        for _ in range(CHANGES):
            states = [_state(session, task) for task in waiting if session.ledger.status[task.row] == Status.PENDING]
            change = _change(session, statement, rng)
            if change is None:
                return
            yield from _changed_results(session, states, change, plugin.name)


class State(NamedTuple):
    """What a plugin declares and returns for a waiting task, also as if an equal task were placed on each node."""

    task: TaskView
    kind: Hashable
    scope: Scope
    results: Results
    with_equal_task: Results


def _state(session: Session, task: TaskView) -> State:
    rows = np.arange(len(session.snapshot.nodes))
    with_equal_task = NodesView(session.ledger, rows, task, np.ones(len(rows), dtype=np.int64))
    return State(
        task,
        session.hooks.cache_key(task),
        session.hooks.scope(task),
        _results(session, task, session.cluster.nodes()),
        _results(session, task, with_equal_task),
    )


class Change(NamedTuple):
    """A task that was placed on a node, or evicted from it."""

    task: TaskView
    node: int
    is_placement: bool


def _changed_results(session: Session, states: Sequence[State], change: Change, name: str) -> Iterator[str]:
    """Yield the results that a change may not have changed. A task with another cache key than before is asked about anew."""
    names, placed = (
        session.snapshot.nodes.names,
        next((state for state in states if state.task.row == change.task.row), None),
    )
    verb = "placing {} on {}" if change.is_placement else "evicting {} from {}"
    text = verb.format(change.task.key, names[change.node])
    for state in states:
        is_waiting = session.ledger.status[state.task.row] == Status.PENDING
        if not is_waiting or state.scope is Scope.CLUSTER or session.hooks.cache_key(state.task) != state.kind:
            continue
        after = _results(session, state.task, session.cluster.nodes())
        kept = f"plugin {name!r}: {state.task.key} has the same results except for {_EXCEPTIONS[state.scope]}, by what was read"
        hint = "read the views alone, or let couples_nodes return True"
        for row, node in enumerate(names):
            hook = state.results.difference(after, row)
            if hook and (row != change.node or state.scope is Scope.STATIC):
                yield f"{kept}, but {text} changes what {hook!r} returns for {node}: {hint}"
        if change.is_placement and placed is not None and placed.kind == state.kind and state.scope <= Scope.COLUMNS:
            hook = placed.with_equal_task.difference(after, change.node)
            if hook:
                yield f"{kept}, but {text} changes what {hook!r} returns for that node in another way than its columns: {hint}"


def _change(session: Session, statement: Statement, rng: Random) -> Change | None:
    """Place a waiting task, or evict a running one; None if nothing can be changed."""
    ledger = session.ledger
    pending, running = (np.flatnonzero(ledger.status == status).tolist() for status in (Status.PENDING, Status.RUNNING))
    if running and not rng.randint(0, 3):
        row = rng.choice(running)
        node = int(ledger.node[row])
        statement.evict(row, "check")
        return Change(TaskView(ledger, row), node, is_placement=False)
    rng.shuffle(pending)
    for row in pending:
        task = TaskView(ledger, row)
        request = task.request.values
        dims = np.flatnonzero(request)
        fits = (ledger.idle[dims] >= request[dims, None]).all(axis=0)
        rejections = _results(session, task, session.cluster.nodes()).rejections
        nodes = [node for node in np.flatnonzero(fits).tolist() if not rejections[node]]
        if nodes:
            node = rng.choice(nodes)
            statement.allocate(row, node)
            return Change(task, node, is_placement=True)
    return None


def _results(session: Session, task: TaskView, nodes: NodesView) -> Results:
    rejections: list[NodeRejection] = list(session.hooks.reject(task, nodes))
    of_nodes = (
        frozenset((each.reason, each.final, each.temporary) for each in rejections if each.nodes[node])
        for node in range(len(nodes))
    )
    return Results(tuple(of_nodes), tuple(session.hooks.score(TasksView([task]), nodes)[0].tolist()))
