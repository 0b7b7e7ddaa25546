"""Whether a plan admits jobs with one of their alternatives each."""

from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.messages import short
from volcanopy.scheduler.model.plan import SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot


def wrongly_selected(moves: Moves) -> list[str]:
    """Return the jobs that are admitted without one of their alternatives, or get another one later."""
    jobs, result = moves.snapshot.jobs, []
    if not any(effect.alternative for effect in moves.plan.of(SetPodGroup)) and not _has_choices(moves.snapshot):
        return []
    for row, effect in moves.groups.items():
        group = jobs.groups[row] if jobs.phase[row] in {"Pending", "Inqueue"} else None
        names = set() if group is None else {each.name for each in group.spec.alternatives}
        undecided = bool(names) and group is not None and group.status.alternative is None
        if effect.alternative is not None and (not undecided or effect.alternative.name not in names):
            result.append(f'podgroup {short(effect.pod_group)} gets alternative "{effect.alternative.name}"')
        admits = undecided and jobs.phase[row] == "Pending" and effect.phase != "Pending"
        if admits and effect.alternative is None:
            result.append(f"podgroup {short(effect.pod_group)} is admitted without one of its alternatives")
    return result


def _has_choices(snapshot: Snapshot) -> bool:
    groups = snapshot.jobs.groups[snapshot.jobs.in_phase("Pending")].tolist()
    return any(group is not None and group.spec.alternatives for group in groups)
