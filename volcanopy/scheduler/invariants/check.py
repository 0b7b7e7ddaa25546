"""Check of plans against all invariants, for property tests, the simulator, the service and the applier.

The check shares no definition with the scheduler: from the objects and columns of the snapshot it counts anew what pods
request, which members of a gang are there, what a gang needs and what a queue may allocate, in the plainest way. Effects
are read one by one and the tables as columns, so that the check of a small plan on a large cluster is cheap.
"""

from collections.abc import Callable, Iterable

from volcanopy.scheduler.invariants import (
    admission,
    claims,
    evictions,
    gangs,
    node_capacity,
    node_rules,
    plan_outcome,
    queues,
    running_gangs,
    topology,
    user_limits,
    victims,
)
from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.snapshot import Snapshot

ENFORCED = frozenset(
    ["gang", "proportion", "capacity", "conformance", "pdb", "cdp", "predicates", "priority", "resourcequota"]
)
"""Plugins with invariants that are checked here, beside those that are always checked."""

_CHECKS: tuple[tuple[str, Callable[[Moves], Iterable[str]]], ...] = (
    ("", node_capacity.overcommitted),
    ("", node_capacity.overcommitted_by_nominations),
    ("predicates:traits", node_rules.not_admitted),
    ("gang:ready", gangs.split),
    ("gang:first", running_gangs.passed_over),
    ("", evictions.without_preemptor),
    ("", queues.beyond_limits),
    ("", user_limits.beyond_limits),
    ("", queues.started_in_held_queue),
    ("", queues.wrongly_reclaimed),
    ("", victims.protected),
    ("", victims.over_budget),
    ("priority:preempt", victims.wrongly_preempted),
    ("gang:broken", evictions.broken_in_part),
    ("", evictions.wrongly_moved),
    ("", evictions.wrongly_restarted),
    ("resourcequota:enqueue", admission.over_quota),
    ("", admission.without_alternative),
    ("", topology.topology_crossed),
    ("", claims.broken_claims),
)
"""The invariants, each with the part of a plugin that must be enforced; empty for those that are always checked."""


def violations(snapshot: Snapshot, plan: Plan, enforced: Iterable[str] = ENFORCED) -> list[str]:
    """Return the violations of a plan, one sentence each; empty for a valid plan.

    ``enforced`` names the invariants of plugins to check (see :attr:`SchedulerConfig.enforced_invariants`): a plugin for
    all of its invariants, or ``plugin:part`` for a part, such as ``conformance:reclaim``. Always checked are node
    capacity, that pods and nodes exist, that only preemptable pods are evicted, that each eviction has a preemptor, and
    the limits of queues, users and groups.
    """
    moves, result = plan_outcome.read(snapshot, plan, frozenset(enforced))
    for part, check in _CHECKS:
        if not part or moves.enforces(*part.split(":")):
            result += check(moves)
    return result
