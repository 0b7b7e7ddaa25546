"""The controller of cron jobs."""

from datetime import datetime

from volcanopy.api.cron import CronBatchJob
from volcanopy.jobcontroller.cron import UpdateCronStatus, reconcile_cron
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import CRON_JOBS
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_jobs import JobOwnerController


class CronController(JobOwnerController):
    """Creates jobs on schedule."""

    of_kind = CRON_JOBS

    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Reconcile a cron job."""
        if (cron := self.readable(CronBatchJob, manifest)) is None:
            return None
        uid = uid_of(manifest)
        plan = reconcile_cron(cron, self.jobs.of(uid), self.now(), self.errors.get(uid, ""))
        for effect in self.step(manifest, plan):
            self.queue.progress(key_of(manifest))
            if isinstance(effect, UpdateCronStatus):
                manifest = await self.write_status(manifest, effect.status)
            else:
                await self.apply(manifest, effect, "SuccessfulCreate")
        return plan.again
