"""Validation of a plan on newer state: the effects of a group that violate an invariant now are dropped.

The cluster changes while a cycle decides: a node or a pod of a gang is deleted, another scheduler takes free resources. The
same invariants as after the decision are checked again before the plan is applied."""

from collections.abc import Iterable
from typing import NamedTuple

from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Explain, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot


class Rechecked(NamedTuple):
    """The remaining plan, and the reason for each dropped group."""

    plan: Plan
    dropped: dict[str, str]


def recheck(plan: Plan, basis: Snapshot, fresh: Snapshot, invariants: Iterable[str]) -> Rechecked:
    """Drop from the plan, decided on ``basis``, all effects of groups whose binds or evictions are invalid on ``fresh``.

    ``invariants`` are the names of the invariants to check.
    """
    enforced = frozenset(invariants)
    units: dict[str, list[Effect]] = {}
    for effect in plan.effects:
        if isinstance(effect, Bind | Evict | Nominate):
            units.setdefault(_group(effect), []).append(effect)
    dropped = {group: why for group, effects in units.items() if (why := _replaced(effects, basis, fresh))}
    left = [(group, effects) for group, effects in units.items() if group not in dropped]
    _accept([], left, fresh, enforced, plan.version, dropped)
    if not dropped:
        return Rechecked(plan, dropped)
    kept = tuple(effect for effect in plan.effects if _group(effect) not in dropped)
    return Rechecked(Plan(kept, plan.version, plan.session), dropped)


def _group(effect: Effect) -> str:
    match effect:
        case Evict():
            return effect.preemptor or effect.group or effect.pod  # an eviction is valid only while its preemptor is
        case Bind() | Nominate():
            return effect.group or effect.pod
        case SetPodGroup():
            return effect.pod_group
        case Explain():
            return effect.job
        case SetQueue():
            return ""


def _replaced(effects: Iterable[Effect], basis: Snapshot, fresh: Snapshot) -> str:
    """A pod of the same name is not the pod that was decided upon."""
    for effect in effects:
        if isinstance(effect, Bind | Evict):
            old, new = basis.task_row(effect.pod), fresh.task_row(effect.pod)
            if old is None or new is None:
                return f"pod {effect.pod} is gone"
            if basis.tasks.pods[old].metadata.uid != fresh.tasks.pods[new].metadata.uid:
                return f"pod {effect.pod} is another one by now"
    return ""


def _accept(
    accepted: list[Effect],
    units: list[tuple[str, list[Effect]]],
    fresh: Snapshot,
    enforced: frozenset[str],
    version: int,
    dropped: dict[str, str],
) -> None:
    """Add to ``accepted`` all units that are valid with it, in order, by bisection: few groups fail."""
    if not units:
        return
    together = [*accepted, *(effect for _, effects in units for effect in effects)]
    broken = violations(fresh, Plan(tuple(together), version), enforced)
    if not broken:
        accepted[:] = together
    elif len(units) == 1:
        dropped[units[0][0]] = "; ".join(broken)
    else:
        middle = len(units) // 2
        _accept(accepted, units[:middle], fresh, enforced, version, dropped)
        _accept(accepted, units[middle:], fresh, enforced, version, dropped)
