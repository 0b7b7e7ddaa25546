"""A test kit for plugins: it runs one over many cluster states and compares all that it does with the contract.

In a test of a plugin::

    from volcanopy_testing import check

    def test_the_plugin_keeps_the_contract() -> None:
        check.check(Cheapest, {"cheapest.weight": 5})

1. The class: unknown names, wrong signatures and declarations (:mod:`volcanopy.scheduler.policy.definition`).
2. Every result of every hook: type, shape, numbers, candidates (:mod:`volcanopy.scheduler.policy.answers`).
3. What the plugin declares about its results for nodes: a placement changes no others, tasks with one key have the same. Keys of
   jobs: each depends on its own job alone, and is the same for one row as for all.
4. The plan: the same again for the same snapshot, and the same decisions where no result is cached.
"""

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from volcanopy.scheduler.core import open_session, run, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy import definition
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.hook_table import implemented
from volcanopy.scheduler.policy.plugin import NodeRejection, Plugin
from volcanopy.scheduler.policy.registry import Registry
from volcanopy_testing import eviction_worlds, random_worlds
from volcanopy_testing.notation import all_policies, snapshot
from volcanopy_testing.uncached import schedule_uncached

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
    """Yield the declarations that do not hold in a cluster state; ``config`` has this plugin alone.

    1. Note the results of the plugin for some waiting tasks on all nodes, and its keys of all jobs.
    2. Place or evict a task. The results of the others may change as the recorded scope allows, the keys of other jobs never.
    3. Repeat this.
    """
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


STATES = 20
CHAINS = (
    "enqueue, allocate, backfill, preempt, reclaim",
    "enqueue, allocate, gangpreempt, gangreclaim, shuffle",
    "enqueue, reclaim, allocate, consolidate",
)
"""The actions of the configurations, which alternate."""
BESIDE = ("gang", "priority", "predicates", "proportion", "nodeorder")
"""The plugins of the second tier, besides the checked one in the first."""


def check(plugin: type[Plugin[Any]], arguments: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Raise PluginError with all faults of a plugin; the options are those of :func:`faults`."""
    texts = faults(plugin, arguments, **options)
    if texts:
        raise PluginError("\n".join(texts))


def faults(
    plugin: type[Plugin[Any]],
    arguments: Mapping[str, Any] | None = None,
    *,
    states: Iterable[str] | None = None,
    hierarchy: bool = False,
) -> list[str]:
    """Return the faults of a plugin with these arguments, one sentence each, with a cluster state where one is needed.

    ``states`` are cluster states in the notation of :mod:`volcanopy_testing.notation`, for a plugin that needs what random ones
    lack; ``hierarchy`` is the switch ``enableHierarchy``.
    """
    texts = [f"plugin {getattr(plugin, 'name', plugin)!r} {text}" for text in definition.faults(plugin)]
    if texts:
        return texts
    if states is None:
        generators = (random_worlds.world, eviction_worlds.world)
        states = [generators[seed % 2](Random(seed)) for seed in range(STATES)]
    for number, state in enumerate(states):
        try:
            texts = list(dict.fromkeys(_faults_of_state(plugin, dict(arguments or {}), hierarchy, state, number)))
        except PluginError as error:
            texts = [str(error)]
        if texts:
            return [*texts, f"in the cluster state:\n{state}"]
    return []


def _faults_of_state(
    plugin: type[Plugin[Any]], arguments: dict[str, Any], hierarchy: bool, state: str, number: int
) -> Iterable[str]:
    entry = {"name": plugin.name, "arguments": arguments} | ({"enableHierarchy": True} if hierarchy else {})
    ours = all_policies()
    registry = Registry({**ours.plugins, plugin.name: plugin}, ours.actions)
    config = _config(entry, CHAINS[number % len(CHAINS)], registry)
    seen = snapshot(state)
    session = open_session(seen, config)
    session.hooks.__class__ = _CheckedHooks
    plan = run(session, registry.actions)
    if decisions(schedule(seen, config, registry)) != decisions(plan):
        yield f"plugin {plugin.name!r} leads to another plan for the same cluster state: it reads a clock, chance or its history"
    uncached = schedule_uncached(seen, config, registry.actions)
    difference = set(decisions(uncached)) ^ set(decisions(plan))
    if difference:
        yield (
            f"plugin {plugin.name!r} leads to another plan where no result is cached: "
            f"{'; '.join(sorted(difference)[:4])}"
        )
    yield from scope_faults(seen, _config(entry, "allocate", registry, beside=()), plugin, Random(number))


def decisions(plan: Plan) -> list[str]:
    """Return what a plan decides, without messages."""
    lines = [f"{effect} {dict(getattr(effect, 'annotations', {}))}" for effect in plan.of(Bind, Evict, Nominate)]
    return lines + [f"podgroup {effect.pod_group} {effect.phase}" for effect in plan.of(SetPodGroup)]


def _config(entry: dict[str, Any], actions: str, registry: Registry, beside: Iterable[str] = BESIDE) -> SchedulerConfig:
    is_quota = entry["name"] in {"capacity", "drf"}
    others = [{"name": name} for name in beside if name != entry["name"] and not (is_quota and name == "proportion")]
    document = {"actions": actions, "tiers": [{"plugins": [entry]}, {"plugins": others}]}
    return parse(json.dumps(document), registry)


class _CheckedHooks(Hooks):
    """The hooks of a session in which every result of every plugin is compared with the contract."""

    checks_all = True
