"""What holds in every world, as functions from a case to what is wrong with it: nothing, if all is well."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from random import Random

import numpy as np

from tests.scheduler.reference import placement
from volcanopy.api.policy import PodDisruptionBudget
from volcanopy.scheduler.actions.stop_policy import StopPolicy
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.framework.config import SchedulerConfig
from volcanopy.scheduler.framework.enforced_invariants import enforced_invariants
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.report.close import close
from volcanopy.scheduler.session.session import Session
from volcanopy.testing.cycles import Simulation
from volcanopy.testing.notation import NOW, world
from volcanopy.testing.random_worlds import Case

REST = 5
"""In at most so many cycles a world in which nothing happens comes to rest; what was leaving leaves after the first.

A cycle in which pods leave whose number a disruption budget rations is not counted: the next one may let more of them go.
"""

LATE = "comes to rest late"
"""What is said of a world that takes longer: jobs of several queues that take turns in having their claims met."""


def seen(objects: Iterable[Object]) -> Snapshot:
    state = State()
    for thing in objects:
        state.upsert(thing)
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
    """The world as it was written, and the plan for it: several properties begin with them."""
    snapshot = seen(_objects(case.world))
    return snapshot, schedule(snapshot, _config(case.document))


def sound(case: Case, dice: Random) -> list[str]:
    """No plan does what no plan may do."""
    snapshot, plan = _decided(case)
    return violations(snapshot, plan, enforced_invariants(_config(case.document)))


def orderless(case: Case, dice: Random) -> list[str]:
    """The order in which objects arrive does not matter, nor is anything left to chance."""
    config, shuffled = _config(case.document), _objects(case.world)
    dice.shuffle(shuffled)
    return _differences(_decided(case)[1], schedule(seen(shuffled), config))


def twinned(case: Case, dice: Random) -> list[str]:
    """What is decided with all nodes at once is what is decided node by node."""
    config, (snapshot, plan) = _config(case.document), _decided(case)
    session = Session(snapshot, config)
    session.placement = placement.OneByOne(session.ledger, session.hooks)
    StopPolicy()(session, {})
    for name in config.actions:
        session.cluster.precedence.begin()
        builtin().actions[name](session, config.action_arguments.get(name, {}))
    return _differences(plan, Plan(tuple(close(session))))


def resting(case: Case, dice: Random) -> list[str]:
    """With nothing arriving and nothing ending, cycles come to rest; each of their plans is sound, every eviction pays.

    Victims vanish, or are made anew by their controllers. ``shuffle`` stays out: moving things once in a while is its purpose.
    """
    config = _without_shuffle(_config(case.document))
    simulation = Simulation(_objects(case.world), config, replaced=bool(dice.randint(0, 1)))
    promised, owed = enforced_invariants(config), dict[str, str]()
    plans: list[Plan] = []
    admits_first = "enqueue" not in config.actions or config.actions.index("enqueue") < config.actions.index("allocate")
    rationed = "pdb" in config.plugins and any(isinstance(thing, PodDisruptionBudget) for thing in _objects(case.world))
    left = REST + 1 + simulation.has_terminating_pods()
    while len(plans) < 4 * REST:
        snapshot = simulation.snapshot()
        plan = simulation.cycle()
        left -= not (rationed and plan.of(Evict))
        simulation.end_terminating()
        plans.append(plan)
        wrong = violations(snapshot, plan, promised)
        bound = {effect.pod: effect.node for effect in plan.of(Bind)}
        wrong += [f"pod {pod} was not bound to {node}" for pod, node in owed.items() if bound.get(pod) != node]
        if wrong:
            return [*wrong, *_told(plans)]
        owed = nominated_for(plan) if admits_first else {}
        if not plan.of(Bind, Evict, Nominate):
            return [] if left >= 0 else [f"{LATE}, after {len(plans) - 1} cycles", *_told(plans)]
    return ["comes to no rest", *_told(plans)]


def reversible(case: Case, dice: Random) -> list[str]:
    """What a statement did is undone without a trace, from any point of it on."""
    ledger = Ledger(seen(_objects(case.world)))
    with Statement(ledger) as statement:
        states = [(0, _columns(ledger))]
        for _ in range(3):
            _random_operations(ledger, statement, dice)
            states.append((statement.checkpoint(), _columns(ledger)))
        while states:
            mark, before = states.pop()
            statement.rollback(mark)
            after = _columns(ledger)
            traces = [name for name in before if not (before[name] == after[name]).all()]
            if traces or (not mark and (statement.evicted or statement.placed or ledger.evictions)):
                return [f"left a trace in {', '.join(traces) or 'the statement'}"]
    return []


def recovering(case: Case, dice: Random) -> list[str]:
    """The state kept current equals the state built anew: objects come, change and go in any order."""
    objects, other = _objects(case.world), _objects(case.world.replace("cpu=1", "cpu=2"))
    dice.shuffle(other)
    state = State()
    for thing in other[: len(other) // 2]:
        state.upsert(thing)
    for thing in other[: len(other) // 4]:
        state.delete(thing)
    known = {(type(thing), thing.metadata.key) for thing in objects}
    for thing in other:
        if (type(thing), thing.metadata.key) not in known:
            state.delete(thing)
    dice.shuffle(objects)
    for thing in objects:
        state.upsert(thing)
    same = placement.canonical(state.snapshot(NOW)) == placement.canonical(seen(objects))
    return [] if same else ["the state kept current is another one than the state built anew"]


PROPERTIES: Mapping[str, Callable[[Case, Random], list[str]]] = {
    "sound": sound,
    "orderless": orderless,
    "twinned": twinned,
    "resting": resting,
    "reversible": reversible,
    "recovering": recovering,
}


def nominated_for(plan: Plan) -> dict[str, str]:
    """The pods that others left for, with their nodes."""
    preemptors = {effect.preemptor for effect in plan.of(Evict)}
    return {effect.pod: effect.node for effect in plan.of(Nominate) if effect.group in preemptors and effect.node}


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


def _told(plans: Iterable[Plan]) -> list[str]:
    return [
        f"  cycle {number}: {effect}"
        for number, plan in enumerate(plans, 1)
        for effect in plan.of(Bind, Evict, Nominate)
    ]


def _columns(ledger: Ledger) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    pools = ledger.pools.held if ledger.pools is not None else []
    columns = {name: column.copy() for name, column in vars(ledger).items() if isinstance(column, np.ndarray)}
    return {**columns, "pools": np.array([units for pool in pools for units in pool], dtype=np.int64)}


def _random_operations(ledger: Ledger, statement: Statement, dice: Random) -> None:
    nodes = len(ledger.snapshot.nodes)
    for row in np.flatnonzero(ledger.status != Status.ABSENT).tolist():
        status = ledger.status[row]
        if dice.randint(0, 2):
            continue
        if status == Status.PENDING:
            dice.choice([statement.allocate, statement.pipeline])(row, dice.randrange(nodes))
        elif status == Status.RUNNING:
            statement.evict(row, "test")
        elif any(row == victim for victim, _ in statement.evicted):
            statement.spare(row)
        elif status in {Status.ALLOCATED, Status.PIPELINED}:
            statement.withdraw(row)
