"""resourcequota: a job is admitted when the quotas of its namespace allow its pods."""

from functools import lru_cache
from typing import ClassVar

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.builtin import policy
from volcanopy.api.gates import Gate
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.messages import Message
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import PERMIT, NoArguments, Plugin, Vote, reject

_REQUESTS = "requests."


class ResourceQuota(Plugin[NoArguments], roles.Gate):
    """Admit a job when its minimal resources fit every quota of its namespace beside those of other admitted jobs.

    Quotas with scopes are left to the API server: they depend on the pods, which do not exist yet.
    """

    name: ClassVar[str] = "resourcequota"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE})

    def open(self) -> None:
        """Group quotas and jobs by namespace."""
        snapshot = self.cluster.snapshot
        self._quotas: dict[str, list[policy.ResourceQuota]] = {}
        for quota in snapshot.quotas:
            if not quota.spec.scopes and quota.spec.scope_selector is None:
                self._quotas.setdefault(quota.metadata.namespace, []).append(quota)
        self._jobs: dict[str, list[int]] = {}
        for row in self.cluster.job_rows().tolist() if self._quotas else ():
            namespace = str(snapshot.jobs.keys[row]).partition("/")[0]
            if namespace in self._quotas:
                self._jobs.setdefault(namespace, []).append(row)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Whether every quota covers the job's minimum."""
        namespace = job.key.partition("/")[0]
        quotas = self._quotas.get(namespace)
        if not quotas:
            return PERMIT
        requested = self._requested(job)
        reserved: dict[str, int] = {}
        snapshot = self.cluster.snapshot
        blocked = snapshot.blocked | snapshot.jobs.pods_rejected  # these may never use the quota
        for row in self._jobs.get(namespace, ()):
            other = self.cluster.job(row)
            if other.phase == "Inqueue" and other.row != job.row and not blocked[row]:
                for name, units in self._requested(other).items():
                    reserved[name] = reserved.get(name, 0) + units
        for quota in quotas:
            hard, used = _limits(quota.status.hard), _limits(quota.status.used)
            for name, units in requested.items():
                taken = used.get(name, 0) + reserved.get(name, 0)
                if units and name in hard and taken + units > hard[name]:
                    return reject(Gate.QUOTA, _message(quota.metadata.key, name, hard[name], units, taken))
        return PERMIT

    def _requested(self, job: JobView) -> dict[str, int]:
        """Return the job's minimum less the requests of its pods: quotas count pods from their creation on."""
        snapshot = self.cluster.snapshot
        existing = snapshot.jobs.allocated.values[:, job.row] + snapshot.jobs.pending.values[:, job.row]
        requested = dict(zip(snapshot.axis.names, np.maximum(existing, 0).tolist(), strict=True))
        least = _limits(job.quota_resources)
        return {name: max(units - requested.get(name, 0), 0) for name, units in least.items()}


def _limits(resources: core.Quantities) -> dict[str, int]:
    """Return a quota's amounts by resource; ``requests.cpu`` equals ``cpu``, and ``count/pods`` equals ``pods``."""
    plain = {
        ("pods" if name == "count/pods" else name.removeprefix(_REQUESTS)): text for name, text in resources.items()
    }
    return {name: quantity.amount(name.removeprefix("limits."), text) for name, text in plain.items()}


@lru_cache(maxsize=4096)
def _message(quota: str, name: str, hard: int, requested: int, taken: int) -> Message:
    namespace, _, own = quota.partition("/")
    has, text, of, free, gap = (
        quantity.text(name, units) for units in (hard, requested, taken, max(hard - taken, 0), taken + requested - hard)
    )
    never = requested > hard
    more = quantity.text(name, requested - hard)
    return Message(
        f"exceeded quota: {own}, requested: {name}={text}, used: {name}={of}, limited: {name}={has}",
        {"quota": own, "namespace": namespace},
        {"requested": {name: text}, "allocated": {name: of}, "limit": {name: has}, "available": {name: free}},
        f'raising resourcequota "{own}" by {more} {name}, or a smaller request'
        if never
        else f'release of {gap} {name} in resourcequota "{own}"',
    )
