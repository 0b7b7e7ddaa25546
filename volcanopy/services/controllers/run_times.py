"""Run times learnt from finished jobs: in memory, and in a ConfigMap that is written once a minute at most.

What is learnt within a minute before a crash is lost: it is an estimate. A ConfigMap that cannot be read is replaced.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

import structlog

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.job_alternatives import with_alternative
from volcanopy.jobcontroller.learnt_run_times import Key, LearntRunTimes, job_key, key_of, run_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS
from volcanopy.kube.metrics import registry
from volcanopy.services.controllers.job_cache import key_of as object_key
from volcanopy.services.controllers.job_history import is_final

log = structlog.get_logger(__name__)

PERIOD = 60.0
"""Seconds between two writes, and between two updates of the estimates of waiting and running jobs."""
_DATA = "run-times.json"


class RunTimes:
    """The learnt run times of the jobs of a cluster, in a ConfigMap of this namespace and name."""

    def __init__(self, client: Client, namespace: str, name: str = "volcanopy-run-times") -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self.table = LearntRunTimes()
        self._changed: set[Key] = set()

    async def load(self) -> None:
        """Read the table of an earlier process, if there is one."""
        try:
            body = await self._client.get(CONFIG_MAPS, self._namespace, self._name)
            self.table = LearntRunTimes.load((body.get("data") or {}).get(_DATA) or "[]")
        except NotFound:
            return
        except (KubeError, ValueError) as fault:
            log.warning("learnt run times not readable, starting without", config_map=self._name, error=str(fault))

    def learn(self, job: BatchJob) -> None:
        """Learn from a job that has ended, and compare it with what was estimated."""
        run, key = run_of(job.status), job_key(job)
        if run is None:
            return
        actual, selected = max(run.total_seconds(), 1.0), job.status.alternative
        declared = with_alternative(job, selected.name if selected else "").spec.running_estimate
        for basis, estimate in (("estimate", declared), ("learnt", self.table.estimate(key))):
            if estimate:
                registry.ESTIMATE_ERROR.labels(basis).observe(abs(estimate.total_seconds() - actual) / actual)
        self.table.learn(key, run)
        self._changed.add(key)

    def estimate(self, job: Json) -> timedelta | None:
        """Return the estimate for a job, with the alternative that was selected for it."""
        return self.table.estimate(_key(job))

    def of_others(self, job: Json) -> timedelta | None:
        """Return what is expected of a job that was never run, from other jobs of its user or queue."""
        return self.table.of_others(_key(job))

    def of_alternatives(self, job: Json) -> dict[str, timedelta]:
        """Return the estimates for a job with each of its alternatives, as far as there are any."""
        estimates = {
            str(alternative.get("name")): self.table.estimate(_key(job, str(alternative.get("name"))))
            for alternative in (job.get("spec") or {}).get("alternatives") or ()
        }
        return {name: estimate for name, estimate in estimates.items() if estimate is not None}

    async def run(self, jobs: Callable[[], Iterable[Json]], wake: Callable[[str], None]) -> None:
        """Write what was learnt, and wake the unfinished jobs that it is about, for ever."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.save(jobs(), wake)

    async def save(self, jobs: Iterable[Json], wake: Callable[[str], None]) -> None:
        """Write what was learnt since the last time, and wake the unfinished jobs that it is about."""
        changed, self._changed = self._changed, set()
        if not changed:
            return
        for job in jobs:
            alternatives = (job.get("spec") or {}).get("alternatives") or ()
            keys = {_key(job), *(_key(job, str(alternative.get("name"))) for alternative in alternatives)}
            if not is_final(job.get("status") or {}) and keys & changed:
                wake(object_key(job))
        try:
            content = {"data": {_DATA: self.table.dump()}}
            await self._client.patch_or_create(CONFIG_MAPS, self._namespace, self._name, content)
        except KubeError as fault:
            self._changed |= changed
            log.warning("learnt run times not written", config_map=self._name, error=str(fault))


def _key(job: Json, alternative: str = "") -> Key:
    metadata = job["metadata"]
    selected = ((job.get("status") or {}).get("alternative") or {}).get("name") or ""
    user = str((metadata.get("annotations") or {}).get(names.SUBMITTED_BY) or "")
    queue = str((job.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)
    return key_of(queue, user, str(metadata["name"]), alternative or str(selected))
