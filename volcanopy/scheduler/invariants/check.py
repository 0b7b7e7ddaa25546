"""What no plan may ever do: the one oracle of property tests, simulator, service and applier.

The plan is looked at on the snapshot alone, with plain sums, independent of the ledger that made it. What a plan does is
read effect by effect; what exists is only passed over as columns, so that judging a small plan on a large cluster is cheap.
"""

from collections.abc import Iterable

from volcanopy.scheduler.invariants import (
    admission,
    claims,
    gangs,
    holds_and_fences,
    node_capacity,
    plan_outcome,
    queues,
    user_limits,
    victims,
)
from volcanopy.scheduler.invariants.topology import topology_crossed
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.snapshot import Snapshot

PROMISES = frozenset({"gang", "proportion", "capacity", "conformance", "pdb", "cdp", "priority", "resourcequota"})
"""Plugins with invariants that are checked here, beside those that are always checked."""


def violations(snapshot: Snapshot, plan: Plan, promised: Iterable[str] = PROMISES) -> list[str]:
    """Everything that the plan does wrong, a sentence each; empty for a sound plan.

    ``promised`` says whose promises are in force (see :attr:`SchedulerConfig.promises`): the name of a plugin for all
    that it promises, or ``plugin:part`` for one part of it, such as ``conformance:reclaim``. Gangs are whole only
    where gang is configured. What no plugin needs to promise is always checked: room, that pods and nodes exist, that
    what is not preemptable stays, that every eviction pays, and what queues let their users, groups and jobs have.
    """
    promised = frozenset(promised)

    def kept(plugin: str, part: str) -> bool:
        return plugin in promised or f"{plugin}:{part}" in promised

    made, result = plan_outcome.read(snapshot, plan)
    result += node_capacity.overcommitted(made)
    result += node_capacity.overpromised(made)
    if kept("gang", "ready"):
        result += gangs.split(made)
    result += gangs.unpaid(made, whole=kept("gang", "ready"))
    result += queues.beyond_limits(made, kept)
    result += user_limits.beyond_limits(made, plan)
    result += holds_and_fences.started_though_stopped(made, plan)
    if len(made.evicted):
        result += queues.robbed(made, kept)
        result += holds_and_fences.outranked(made)
        result += victims.protected(made, kept)
        result += victims.over_budget(made, kept)
        result += victims.too_important(made, kept)
    result += admission.over_quota(snapshot, plan, kept)
    result += topology_crossed(snapshot, plan)
    result += claims.broken_claims(snapshot, plan)
    return result
