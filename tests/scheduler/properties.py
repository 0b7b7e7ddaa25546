"""Properties of scheduling in every world, as functions that return the violations of a case."""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property, lru_cache
from random import Random

import numpy as np
from msgspec.structs import replace

from tests.scheduler import needless_evictions
from tests.scheduler.random_cases import Case
from tests.scheduler.reference import placement
from volcanopy.api import core, names
from volcanopy.api.builtin.policy import PodDisruptionBudget
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import builtin, open_session, run, schedule
from volcanopy.scheduler.invariants import gangs, plan_outcome
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.ledger.columns import LedgerColumns
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import READY, Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, world
from volcanopy_testing.uncached import UncachedPlacement

STABLE_AFTER = 5
"""The number of cycles after which plans are empty if nothing else changes; victims terminate after the first.

A cycle with evictions under a disruption budget does not count: the next may evict more of its pods.
"""

LATE = "becomes stable late"
"""The message for a world that takes longer: jobs of several queues that reclaim one after the other."""


def seen(objects: Iterable[Object]) -> Snapshot:
    state = State()
    for obj in objects:
        state.upsert(obj)
    return state.snapshot(NOW, "test")


@lru_cache(maxsize=2)
def _config(document: str) -> SchedulerConfig:
    return Case("", document).config()


@lru_cache(maxsize=2)
def _parsed(text: str) -> tuple[Object, ...]:
    return tuple(world(text))


def _objects(text: str) -> list[Object]:
    return list(_parsed(text))


@lru_cache(maxsize=2)
def _decided(case: Case) -> tuple[Snapshot, Plan]:
    """Return the snapshot of a case and its plan, which several properties use."""
    snapshot = seen(_objects(case.world))
    return snapshot, schedule(snapshot, _config(case.document))


def valid_plans(case: Case, rng: Random) -> list[str]:
    """Plans violate no invariant."""
    snapshot, plan = _decided(case)
    return needless_evictions.violations(snapshot, plan, enforced_invariants(_config(case.document)))


def order_independence(case: Case, rng: Random) -> list[str]:
    """Plans do not depend on the order of objects and are deterministic."""
    config, shuffled = _config(case.document), _objects(case.world)
    rng.shuffle(shuffled)
    return _differences(_decided(case)[1], schedule(seen(shuffled), config))


def equality_with_reference(case: Case, rng: Random) -> list[str]:
    """Vectorised placement equals placement node by node."""
    config, (snapshot, plan) = _config(case.document), _decided(case)
    session = open_session(snapshot, config)
    session.placement = UncachedPlacement(session.ledger, session.hooks)
    return _differences(plan, run(session, builtin().actions))


def stability(case: Case, rng: Random) -> list[str]:
    """Without other changes plans become empty; each plan is valid, and every preemptor is bound.

    Victims are deleted, or created again by their controllers. ``shuffle`` is left out, because it evicts periodically.
    """
    config = _without_shuffle(_config(case.document))
    simulation = Simulation(_objects(case.world), config, replaced=bool(rng.randint(0, 1)))
    enforced, expected = enforced_invariants(config), dict[str, str]()
    plans: list[Plan] = []
    admits_first = "enqueue" not in config.actions or config.actions.index("enqueue") < config.actions.index("allocate")
    limited_by_budget = "pdb" in config.plugins and any(
        isinstance(obj, PodDisruptionBudget) for obj in _objects(case.world)
    )
    left = STABLE_AFTER + 1 + simulation.has_terminating_pods()
    while len(plans) < 4 * STABLE_AFTER:
        snapshot = simulation.snapshot()
        plan = simulation.cycle()
        left -= not (limited_by_budget and plan.of(Evict))
        simulation.end_terminating()
        plans.append(plan)
        wrong = violations(snapshot, plan, enforced)
        bound = {effect.pod: effect.node for effect in plan.of(Bind)}
        wrong += [f"pod {pod} was not bound to {node}" for pod, node in expected.items() if bound.get(pod) != node]
        if wrong:
            return [*wrong, *_cycle_lines(plans)]
        expected = nominated_for(plan) if admits_first else {}
        if not plan.of(Bind, Evict, Nominate):
            return [] if left >= 0 else [f"{LATE}, after {len(plans) - 1} cycles", *_cycle_lines(plans)]
    return ["does not become stable", *_cycle_lines(plans)]


def nominations_complete_gangs(case: Case, rng: Random) -> list[str]:
    """Pods are nominated only where they make their gang complete, with those that have nodes."""
    snapshot, plan = _decided(case)
    if "gang" not in _config(case.document).plugins:
        return []
    tasks, jobs = snapshot.tasks, snapshot.jobs
    nodes = {
        tasks.keys[row]: snapshot.nodes.names[tasks.nominated[row]] for row in np.flatnonzero(tasks.nominated >= 0)
    }
    nodes |= {effect.pod: effect.node for effect in plan.of(Nominate)}
    nodes |= {effect.pod: effect.node for effect in plan.of(Bind)}
    evicted = {effect.pod for effect in plan.of(Evict)}
    wrong = []
    for key in {effect.group for effect in plan.of(Nominate) if effect.node}:
        job = int(np.flatnonzero(jobs.keys == key)[0])
        members = snapshot.members(job).tolist()
        ready = [row for row in members if READY[tasks.status[row]] and tasks.keys[row] not in evicted]
        waiting = [row for row in members if tasks.status[row] == Status.PENDING and nodes.get(tasks.keys[row])]
        if len(ready) + len(waiting) < jobs.min_available[job]:
            wrong.append(f"gang {key} cannot start with its nominations")
    return wrong


def rollback(case: Case, rng: Random) -> list[str]:
    """A rollback restores the state of any checkpoint of a statement."""
    ledger = Ledger(seen(_objects(case.world)))
    with Statement(ledger) as statement:
        states = [(0, _columns(ledger))]
        for _ in range(3):
            _random_operations(ledger, statement, rng)
            states.append((statement.checkpoint(), _columns(ledger)))
        while states:
            mark, before = states.pop()
            statement.rollback(mark)
            after = _columns(ledger)
            traces = [name for name in before if not (before[name] == after[name]).all()]
            if traces or (not mark and (statement.evicted or statement.placed or ledger.evictions)):
                return [f"rollback left changes in {', '.join(traces) or 'the statement'}"]
    return []


def incremental_state(case: Case, rng: Random) -> list[str]:
    """The incremental state equals a rebuilt state, with objects added, changed and deleted in any order."""
    objects, other = _objects(case.world), _objects(case.world.replace("cpu=1", "cpu=2"))
    rng.shuffle(other)
    state = State()
    for obj in other[: len(other) // 2]:
        state.upsert(obj)
    for obj in other[: len(other) // 4]:
        state.delete(obj)
    known = {(type(item), item.metadata.key) for item in objects}
    for obj in other:
        if (type(obj), obj.metadata.key) not in known:
            state.delete(obj)
    rng.shuffle(objects)
    for obj in objects:
        state.upsert(obj)
    same = placement.canonical(state.snapshot(NOW)) == placement.canonical(seen(objects))
    return [] if same else ["the incremental state differs from the rebuilt state"]


def running_gangs_first(case: Case, rng: Random) -> list[str]:
    """No new start uses what a running gang could have used: it becomes whole if it does where no other job waits.

    Worlds with one such gang count. Nominations are left out: resources were freed for those pods.
    """
    config = _config(case.document)
    if "gang:ready" not in enforced_invariants(config):
        return []
    objects = [
        replace(obj, status=replace(obj.status, nominated_node_name="")) if isinstance(obj, core.Pod) else obj
        for obj in _objects(case.world)
    ]
    snapshot = seen(objects)
    lacking = broken_gangs(snapshot, Plan(()))
    if len(lacking) != 1:
        return []
    alone = seen(
        obj for obj in objects if not isinstance(obj, core.Pod) or obj.spec.node_name or _group_of(obj) in lacking
    )
    left = broken_gangs(snapshot, schedule(snapshot, config)) - broken_gangs(alone, schedule(alone, config))
    return [f"gang {key} is not whole because of new starts" for key in left & lacking]


def _group_of(pod: core.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get(names.GROUP_NAME, '')}"


def broken_gangs(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Return the gangs of which pods run and that lack members after a plan."""
    outcome, _ = plan_outcome.read(snapshot, plan)
    tasks, jobs = snapshot.tasks, snapshot.jobs
    run = tasks.job[plan_outcome.STARTED[tasks.status] & (tasks.job >= 0)]
    present = plan_outcome.PRESENT[outcome.status]
    return {str(jobs.keys[row]) for row in set(run.tolist()) if gangs.missing(outcome, row, present)}


def blocked_gangs_change_nothing(case: Case, rng: Random) -> list[str]:
    """A gang that is not started and needs gated pods changes nothing for others: they get what they get without it."""
    config, objects = _config(case.document), _objects(case.world)
    if "gang:ready" not in enforced_invariants(config):
        return []
    snapshot, plan = _decided(case)
    jobs, tasks = snapshot.jobs, snapshot.tasks
    blocked = set[str]()
    for row in np.flatnonzero(jobs.grouped).tolist():
        members = snapshot.members(row)
        pending = members[tasks.status[members] == Status.PENDING]
        gated = int(tasks.gated[pending].sum())
        if gated and len(pending) == len(members) and len(pending) - gated < jobs.min_available[row] <= len(members):
            blocked.add(str(jobs.keys[row]))
    if not blocked:
        return []
    without = schedule(
        seen(
            obj
            for obj in objects
            if not (isinstance(obj, core.PodGroup) and obj.metadata.key in blocked)
            and not (isinstance(obj, core.Pod) and _group_of(obj) in blocked)
        ),
        config,
    )
    with_them, alone = _outcome(plan, blocked), _outcome(without, blocked)
    return [f"only beside blocked gangs: {line}" for line in sorted(with_them - alone)] + [
        f"only without blocked gangs: {line}" for line in sorted(alone - with_them)
    ]


def _outcome(plan: Plan, but: Container[str]) -> set[str]:
    """Return the effects of a plan on the pods and the phases of groups, but for these groups."""
    lines = {str(effect) for effect in plan.of(Bind, Evict, Nominate) if effect.group not in but}
    groups = (effect for effect in plan.of(SetPodGroup) if effect.pod_group not in but)
    return lines | {f"{effect.pod_group} {effect.phase}" for effect in groups}


PROPERTIES: Mapping[str, Callable[[Case, Random], list[str]]] = {
    "valid_plans": valid_plans,
    "order_independence": order_independence,
    "equality_with_reference": equality_with_reference,
    "stability": stability,
    "rollback": rollback,
    "incremental_state": incremental_state,
    "running_gangs_first": running_gangs_first,
    "nominations_complete_gangs": nominations_complete_gangs,
    "blocked_gangs_change_nothing": blocked_gangs_change_nothing,
}


def nominated_for(plan: Plan) -> dict[str, str]:
    """Return the nominated pods of preemptors, with their nodes."""
    preemptors = {effect.preemptor for effect in plan.of(Evict)}
    return {effect.pod: effect.node for effect in plan.of(Nominate) if effect.group in preemptors and effect.node}


def assert_nominations_are_kept(simulation: Simulation, promised: Mapping[str, str]) -> None:
    """Assert that nominated pods get their nodes as soon as the victims terminate, and that no other pod gets them before."""
    second = simulation.cycle()
    bound = {effect.pod: effect.node for effect in second.of(Bind)}
    assert not promised.keys() & {effect.pod for effect in second.of(Nominate)}
    simulation.end_terminating()
    bound |= {effect.pod: effect.node for effect in simulation.cycle().of(Bind)}
    assert promised.items() <= bound.items()


def gate_pending(simulation: Simulation, but: Container[str]) -> None:
    """Add a scheduling gate to all pending pods but these: their requests still count, but they are not placed."""
    for item in simulation.cluster.of_kind("Pod").values():
        if not item.spec.node_name and item.metadata.key not in but:
            spec = replace(item.spec, scheduling_gates=(core.SchedulingGate(name="simulation"),))
            simulation.cluster.put(replace(item, spec=spec))


def _without_shuffle(config: SchedulerConfig) -> SchedulerConfig:
    actions = tuple(name for name in config.actions if name != "shuffle")
    return SchedulerConfig(actions, config.tiers, config.action_arguments, config.metrics)


def _differences(one: Plan, other: Plan) -> list[str]:
    if str(one) == str(other):
        return []
    first, second = str(one).splitlines(), str(other).splitlines()
    return [f"only here: {line}" for line in first if line not in second] + [
        f"only there: {line}" for line in second if line not in first
    ] or ["the effects are in another order"]


def _cycle_lines(plans: Iterable[Plan]) -> list[str]:
    return [
        f"  cycle {number}: {effect}"
        for number, plan in enumerate(plans, 1)
        for effect in plan.of(Bind, Evict, Nominate)
    ]


def _columns(ledger: Ledger) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    pools = ledger.pools.held if ledger.pools is not None else []
    names = [name for name, kind in vars(LedgerColumns).items() if isinstance(kind, cached_property)]
    columns = {name: np.array(getattr(ledger, name)) for name in names if name != "is_plain"}
    return {**columns, "pools": np.array([units for pool in pools for units in pool], dtype=np.int64)}


def _random_operations(ledger: Ledger, statement: Statement, rng: Random) -> None:
    nodes = len(ledger.snapshot.nodes)
    for row in np.flatnonzero(ledger.status != Status.ABSENT).tolist():
        status = ledger.status[row]
        if rng.randint(0, 2):
            continue
        if status == Status.PENDING:
            rng.choice([statement.allocate, statement.pipeline])(row, rng.randrange(nodes))
        elif status == Status.RUNNING:
            statement.evict(row, "test")
        elif any(row == victim for victim, _ in statement.evicted):
            statement.restore(row)
        elif status in {Status.ALLOCATED, Status.PIPELINED}:
            statement.withdraw_all(np.array([row], dtype=np.intp))
