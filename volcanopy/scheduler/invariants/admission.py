"""Whether the jobs that a plan admits fit the quotas of their namespaces, and get one of their alternatives each."""

from collections.abc import Iterator, Mapping

import numpy as np

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.messages import short
from volcanopy.scheduler.model.snapshot import Snapshot


def over_quota(moves: Moves) -> Iterator[str]:
    """Yield the quotas that are exceeded by usage and the outstanding requests of admitted jobs.

    Only resources that newly admitted jobs request are checked. Quotas with scopes are left to the API server.
    """
    snapshot, jobs = moves.snapshot, moves.snapshot.jobs
    chosen = {row: effect.alternative.name for row, effect in moves.groups.items() if effect.alternative}
    admitted = [row for row, effect in moves.groups.items() if effect.phase != "Pending"]
    new = [row for row in admitted if jobs.phase[row] == "Pending" and jobs.groups[row] is not None]
    for quota in snapshot.quotas:
        namespace = quota.metadata.namespace
        newcomers = [row for row in new if str(jobs.keys[row]).startswith(f"{namespace}/")]
        if not newcomers or quota.spec.scopes or quota.spec.scope_selector is not None:
            continue
        before = [
            row
            for row in np.flatnonzero(jobs.phase == "Inqueue").tolist()
            if jobs.groups[row] is not None
            and not snapshot.blocked[row]
            and jobs.groups[row].metadata.annotations.get(names.PODS_REJECTED) != "true"
            and str(jobs.keys[row]).startswith(f"{namespace}/")
        ]
        hard, used = _amounts(quota.status.hard), _amounts(quota.status.used)
        requested = {name for row in newcomers for name, units in _outstanding(snapshot, row, chosen).items() if units}
        for name in sorted(requested & hard.keys()):
            total = sum(_outstanding(snapshot, row, chosen).get(name, 0) for row in [*newcomers, *before])
            if total + used.get(name, 0) > hard[name]:
                amounts = f"{quantity.text(name, total + used.get(name, 0))} of {quantity.text(name, hard[name])}"
                yield f"resourcequota {quota.metadata.key} is exceeded by reservations: {amounts} {name}"


def without_alternative(moves: Moves) -> Iterator[str]:
    """Yield the jobs that are admitted without one of their alternatives, or get another one later."""
    jobs = moves.snapshot.jobs
    for row, effect in moves.groups.items():
        group = jobs.groups[row] if jobs.phase[row] in {"Pending", "Inqueue"} else None
        alternatives = set() if group is None else {each.name for each in group.spec.alternatives}
        undecided = bool(alternatives) and group is not None and group.status.alternative is None
        if effect.alternative is not None and (not undecided or effect.alternative.name not in alternatives):
            yield f'podgroup {short(effect.pod_group)} gets alternative "{effect.alternative.name}"'
        admits = undecided and jobs.phase[row] == "Pending" and effect.phase != "Pending"
        if admits and effect.alternative is None:
            yield f"podgroup {short(effect.pod_group)} is admitted without one of its alternatives"


def _outstanding(snapshot: Snapshot, job: int, chosen: Mapping[int, str]) -> dict[str, int]:
    """Return the part of the minimal resources of a job that no pod requests yet."""
    group = snapshot.jobs.groups[job]
    made = snapshot.jobs.allocated.values[:, job] + snapshot.jobs.pending.values[:, job]
    created = dict(zip(snapshot.axis.names, made.tolist(), strict=True))
    name = chosen.get(job, "")
    alternative = next((each for each in group.spec.alternatives if each.name == name), None)
    least = _amounts(core.min_resources(group) or {} if alternative is None else alternative.min_resources)
    return {name: max(units - max(created.get(name, 0), 0), 0) for name, units in least.items()}


def _amounts(resources: core.Quantities) -> dict[str, int]:
    """Base units by resource; ``requests.cpu`` is ``cpu``, ``count/pods`` is ``pods``."""
    counted = {name: "pods" if name == "count/pods" else name.removeprefix("requests.") for name in resources}
    return {
        counted[name]: quantity.amount(counted[name].removeprefix("limits."), text) for name, text in resources.items()
    }
