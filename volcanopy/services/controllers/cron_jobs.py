"""The controller of cron jobs: what changes, or the clock, wakes one; its plan is carried out."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from volcanopy.api import names
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.cron import UpdateCronStatus, reconcile_cron
from volcanopy.jobcontroller.flow_plan import CreateJob, RemoveJob
from volcanopy.jobcontroller.plan import RecordEvent
from volcanopy.kube.apply.event_writer import EventRecorder
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.controller import Controller, utc_now
from volcanopy.services.controllers.effects import JOBS
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_jobs import OwnedJobs

CRON_JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "CronBatchJob", "cronbatchjobs", True, dict)


class CronController(Controller):
    """Makes jobs at their time. ``now`` is there for tests."""

    kind = CRON_JOBS

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(client, recorder, now)
        self._keys: dict[str, str] = {}
        self._jobs = OwnedJobs(("CronBatchJob",), self._wake)

    def watched(self) -> Sequence[Kind[Any]]:
        """Cron jobs, and the jobs that they made."""
        return (CRON_JOBS, JOBS)

    def told(self, event: str | None, found: Json) -> None:
        """A cron job or a job has changed."""
        if found.get("kind") == "BatchJob":
            self._jobs.event(event, found)
        else:
            super().told(event, found)

    def changed(self, event: str | None, found: Json) -> None:
        """A cron job has changed."""
        if event == "DELETED":
            self._keys.pop(uid_of(found), None)
        else:
            self._keys[uid_of(found)] = key_of(found)
        super().changed(event, found)

    def _wake(self, owner: str) -> None:
        if key := self._keys.get(owner):
            self.queue.add(key)

    async def look(self, raw: Json) -> datetime | None:
        """Do what is due."""
        try:
            cron = CronBatchJob.read(raw)
        except InvalidObjectError as error:
            self.recorder.record(self.about(raw), "Warning", "Unreadable", str(error))
            return None
        uid, namespace = uid_of(raw), raw["metadata"]["namespace"]
        plan = reconcile_cron(cron, self._jobs.of(uid), self.now(), self.trouble.get(uid, ""))
        for effect in plan.effects:
            match effect:
                case UpdateCronStatus():
                    raw = await self.write_status(raw, effect.status)
                case CreateJob():
                    self._jobs.response(await self.create_owned(JOBS, uid, effect.manifest))
                    self.recorder.record(self.about(raw), "Normal", "SuccessfulCreate", str(effect))
                case RemoveJob():
                    await self.remove(JOBS, namespace, effect.name, effect.uid)
                case RecordEvent():
                    self.recorder.record(self.about(raw), effect.type, effect.reason, effect.message)
        return plan.again
