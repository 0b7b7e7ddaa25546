"""Whether a plan admits jobs with one of their alternatives each."""

import numpy as np

from volcanopy.scheduler.model.messages import short
from volcanopy.scheduler.model.plan import Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot


def wrongly_selected(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return the jobs that are admitted without one of their alternatives, or get another one later."""
    groups = plan.of(SetPodGroup)
    if not any(effect.alternative for effect in groups) and not _has_choices(snapshot):
        return []
    jobs, result = snapshot.jobs, []
    by_key = {str(jobs.keys[row]): row for row in np.flatnonzero(jobs.in_phase("Pending") | jobs.in_phase("Inqueue"))}
    for effect in groups:
        row = by_key.get(effect.pod_group)
        group = None if row is None else jobs.groups[row]
        names = set() if group is None else {each.name for each in group.spec.alternatives}
        undecided = bool(names) and group is not None and group.status.alternative is None
        if effect.alternative is not None and (not undecided or effect.alternative.name not in names):
            result.append(f'podgroup {short(effect.pod_group)} gets alternative "{effect.alternative.name}"')
        admits = undecided and row is not None and jobs.phase[row] == "Pending" and effect.phase != "Pending"
        if admits and effect.alternative is None:
            result.append(f"podgroup {short(effect.pod_group)} is admitted without one of its alternatives")
    return result


def _has_choices(snapshot: Snapshot) -> bool:
    groups = snapshot.jobs.groups[snapshot.jobs.in_phase("Pending")].tolist()
    return any(group is not None and group.spec.alternatives for group in groups)
