"""The controller of cron jobs."""

from datetime import datetime

from volcanopy.api.cron import CronBatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.cron import UpdateCronStatus, reconcile_cron
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, RecordEvent
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import CRON_JOBS
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_jobs import JobOwnerController
from volcanopy.services.controllers.owned_objects import delete_same


class CronController(JobOwnerController):
    """Creates jobs on schedule."""

    of_kind = CRON_JOBS

    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Reconcile a cron job."""
        try:
            cron = CronBatchJob.read(manifest)
        except InvalidObjectError as error:
            self.record(manifest, "Warning", "Unreadable", str(error))
            return None
        uid, namespace = uid_of(manifest), manifest["metadata"]["namespace"]
        plan = reconcile_cron(cron, self.jobs.of(uid), self.now(), self.errors.get(uid, ""))
        for effect in self.step(manifest, plan):
            self.queue.progress(key_of(manifest))
            match effect:
                case UpdateCronStatus():
                    manifest = await self.write_status(manifest, effect.status)
                case CreateJob():
                    await self.create_job(uid, effect.manifest)
                    self.record(manifest, "Normal", "SuccessfulCreate", str(effect))
                case DeleteJob():
                    await delete_same(self.client, self.job_kind, namespace, effect.name, effect.uid)
                case RecordEvent():
                    self.record(manifest, effect.type, effect.reason, effect.message)
        return plan.again
