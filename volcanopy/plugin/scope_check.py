"""Whether what a plugin declares about its results for nodes is true of them, and whether its keys of jobs are of one job alone.

1. Note the results of the plugin for some waiting tasks on all nodes, and its keys of all jobs.
2. Place or evict a task. The results of the others may change as the recorded scope allows, the keys of other jobs never.
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
    Scope.STATE: "the node of a placement",
    Scope.NODE: "the node of a placement",
}
"""The nodes for which a placement changes the results, by the recorded scope."""


_KEY_HINT = "a key depends on its own job; compute in open what it needs of others"


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
    hooks = implemented(plugin)
    if not hooks & {"reject", "score", "jobs"} or not len(seen.nodes):
        return
    session = open_session(seen, config)
    if "jobs" in hooks:
        yield from _keys_that_depend_on_the_block(session, plugin.name)
    rows = np.flatnonzero(session.ledger.status == Status.PENDING).tolist()
    waiting = [TaskView(session.ledger, row) for row in rng.sample(rows, min(len(rows), TASKS))]
    waiting = waiting if hooks & {"reject", "score"} else []
    with session.statement() as statement:
        for _ in range(CHANGES):
            states = [_state(session, task) for task in waiting if session.ledger.status[task.row] == Status.PENDING]
            keys = session.hooks.job_keys(session.job_rows)
            change = _change(session, statement, rng)
            if change is None:
                return
            yield from _changed_results(session, states, change, plugin.name)
            yield from _changed_keys(session, keys, change, plugin.name)


def _keys_that_depend_on_the_block(session: Session, name: str) -> Iterator[str]:
    """Yield the first job that has another key if the hook is called for it alone."""
    rows = session.job_rows
    for number, key in enumerate(session.hooks.job_keys(rows)):
        job = session.cluster.job(int(rows[number]))
        if session.hooks.job_keys(rows[number : number + 1]) != [key]:
            yield f"plugin {name!r}: 'jobs' returns another key for job {job.key} if it is called for it alone: {_KEY_HINT}"
            return


def _changed_keys(session: Session, before: Sequence[Any], change: "FieldChange", name: str) -> Iterator[str]:
    """Yield the jobs whose keys a change of a task of another job has changed."""
    after = session.hooks.job_keys(session.job_rows)
    for row, old, new in zip(session.job_rows.tolist(), before, after, strict=True):
        job = session.cluster.job(row)
        if old != new and (change.task.job is None or change.task.job.row != row):
            yield f"plugin {name!r}: {change.text(session)} changes the key that 'jobs' returns for job {job.key}: {_KEY_HINT}"
            return


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


class FieldChange(NamedTuple):
    """A task that was placed on a node, or evicted from it."""

    task: TaskView
    node: int
    is_placement: bool

    def text(self, session: Session) -> str:
        """Return the change as text."""
        verb = "placing {} on {}" if self.is_placement else "evicting {} from {}"
        return verb.format(self.task.key, session.snapshot.nodes.names[self.node])


def _changed_results(session: Session, states: Sequence[State], change: FieldChange, name: str) -> Iterator[str]:
    """Yield the results that a change may not have changed. A task with another cache key than before is asked about anew."""
    names, placed = (
        session.snapshot.nodes.names,
        next((state for state in states if state.task.row == change.task.row), None),
    )
    text = change.text(session)
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


def _change(session: Session, statement: Statement, rng: Random) -> FieldChange | None:
    """Place a waiting task, or evict a running one; None if nothing can be changed."""
    ledger = session.ledger
    pending, running = (np.flatnonzero(ledger.status == status).tolist() for status in (Status.PENDING, Status.RUNNING))
    if running and not rng.randint(0, 3):
        row = rng.choice(running)
        node = int(ledger.node[row])
        statement.evict(row, "check")
        return FieldChange(TaskView(ledger, row), node, is_placement=False)
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
            return FieldChange(task, node, is_placement=True)
    return None


def _results(session: Session, task: TaskView, nodes: NodesView) -> Results:
    rejections: list[NodeRejection] = list(session.hooks.reject(task, nodes))
    of_nodes = (
        frozenset((each.reason, each.final, each.temporary) for each in rejections if each.nodes[node])
        for node in range(len(nodes))
    )
    return Results(tuple(of_nodes), tuple(session.hooks.score(TasksView([task]), nodes)[0].tolist()))
