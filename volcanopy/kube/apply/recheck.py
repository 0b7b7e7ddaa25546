"""A plan looked at again on fresher state: a group that no longer passes is dropped, the rest proceeds.

While a cycle decides, the world moves on: a node goes, a pod of a gang is deleted, somebody else takes the room. The same
oracle that judges plans when they are made judges them again before they are carried out.
"""

from collections.abc import Iterable
from typing import NamedTuple

from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Explain, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot


class Rechecked(NamedTuple):
    """What is left of a plan, and why each of the other groups was dropped."""

    plan: Plan
    dropped: dict[str, str]


def recheck(plan: Plan, basis: Snapshot, fresh: Snapshot, promised: Iterable[str]) -> Rechecked:
    """Drop from the plan, which was made on ``basis``, the groups whose binds or evictions ``fresh`` forbids.

    With a group all that the plan says about it goes: the next cycle decides it anew.
    """
    promised = frozenset(promised)
    units: dict[str, list[Effect]] = {}
    for effect in plan.effects:
        if isinstance(effect, Bind | Evict | Nominate):
            units.setdefault(_group(effect), []).append(effect)
    dropped = {group: why for group, effects in units.items() if (why := _replaced(effects, basis, fresh))}
    left = [(group, effects) for group, effects in units.items() if group not in dropped]
    _accept([], left, fresh, promised, plan.version, dropped)
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
    promised: frozenset[str],
    version: int,
    dropped: dict[str, str],
) -> None:
    """Add to ``accepted`` all units that go with it, in order, by halves: few groups fail, so few questions are asked."""
    if not units:
        return
    together = [*accepted, *(effect for _, effects in units for effect in effects)]
    broken = violations(fresh, Plan(tuple(together), version), promised)
    if not broken:
        accepted[:] = together
    elif len(units) == 1:
        dropped[units[0][0]] = "; ".join(broken)
    else:
        middle = len(units) // 2
        _accept(accepted, units[:middle], fresh, promised, version, dropped)
        _accept(accepted, units[middle:], fresh, promised, version, dropped)
