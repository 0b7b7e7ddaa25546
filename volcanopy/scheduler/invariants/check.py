"""Check of plans against all invariants, for property tests, the simulator, the service and the applier.

The check shares no definition with the scheduler: from the objects and columns of the snapshot it counts anew what pods
request, which members of a gang are there, what a gang needs and what a queue may allocate, in the plainest way. Effects
are read one by one and the tables as columns, so that the check of a small plan on a large cluster is cheap.
"""

from collections.abc import Iterable

from volcanopy.scheduler.invariants import (
    admission,
    alternatives,
    claims,
    evictions,
    gangs,
    held_queues,
    node_capacity,
    node_rules,
    plan_outcome,
    queues,
    running_gangs,
    user_limits,
    victims,
)
from volcanopy.scheduler.invariants.topology import topology_crossed
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.snapshot import Snapshot

ENFORCED = frozenset(
    {
        "gang",
        "proportion",
        "capacity",
        "conformance",
        "pdb",
        "cdp",
        "predicates",
        "priority",
        "resourcequota",
    }
)
"""Plugins with invariants that are checked here, beside those that are always checked."""


def violations(snapshot: Snapshot, plan: Plan, enforced: Iterable[str] = ENFORCED) -> list[str]:
    """Return the violations of a plan, one sentence each; empty for a valid plan.

    ``enforced`` names the invariants of plugins to check (see :attr:`SchedulerConfig.enforced_invariants`): a plugin for
    all of its invariants, or ``plugin:part`` for a part, such as ``conformance:reclaim``. Always checked are node
    capacity, that pods and nodes exist, that only preemptable pods are evicted, that each eviction has a preemptor, and
    the limits of queues, users and groups.
    """
    enforced = frozenset(enforced)

    def is_enforced(plugin: str, part: str) -> bool:
        return plugin in enforced or f"{plugin}:{part}" in enforced

    made, result = plan_outcome.read(snapshot, plan)
    result += node_capacity.overcommitted(made)
    result += node_capacity.overcommitted_by_nominations(made)
    if is_enforced("predicates", "traits"):
        result += node_rules.not_admitted(made)
    if is_enforced("gang", "ready"):
        result += gangs.split(made, is_enforced)
    if is_enforced("gang", "first"):
        result += running_gangs.passed_over(made)
    result += evictions.without_preemptor(made, is_enforced)
    result += queues.beyond_limits(made, is_enforced)
    result += user_limits.beyond_limits(made)
    result += held_queues.started_in_held_queue(made)
    if len(made.evicted):
        result += queues.wrongly_reclaimed(made, is_enforced)
        result += victims.protected(made, is_enforced)
        result += victims.over_budget(made, is_enforced)
        result += victims.wrongly_preempted(made, is_enforced)
        if is_enforced("gang", "broken"):
            result += evictions.broken_in_part(made)
        result += evictions.wrongly_moved(made)
        result += evictions.wrongly_restarted(made, is_enforced)
    result += admission.over_quota(made, is_enforced)
    result += alternatives.wrongly_selected(made)
    result += topology_crossed(made)
    result += claims.broken_claims(snapshot, plan)
    return result
