"""The controller of jobs: it reads a job and what exists of it, and applies the plan of the reconcile."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod
from volcanopy.api.lifecycle import Event
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.accounting import accounted
from volcanopy.jobcontroller.history import has_ended
from volcanopy.jobcontroller.phases import STOPPED
from volcanopy.jobcontroller.plan import CreatePod, JobPlan, RecordEvent, UpdateStatus
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOB_HISTORIES, JOBS
from volcanopy.kube.metrics import registry
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.kube.writes.write_queue import spread
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.effects import LARGE, Ending, JobEffects
from volcanopy.services.controllers.job_cache import JobCache, Urgency, key_of
from volcanopy.services.controllers.job_history import JobHistoryWriter
from volcanopy.services.controllers.owned_objects import WRITES_AT_ONCE, concerns_all
from volcanopy.services.controllers.reconcile_metrics import jobs_by_phase
from volcanopy.services.controllers.run_times import RunTimes
from volcanopy.services.controllers.steps import Steps
from volcanopy.services.process.settings import Election

log = structlog.get_logger(__name__)

_LARGE = 1_000
"""Pods of a job from which on its plan is made on a thread."""
_BYTES_OF_A_DELAY = 64 * 1024
"""Bytes of a job for each of which its minor statuses wait once more as long: 20 s with 1.3 MB, in which most such jobs start."""


@dataclass(frozen=True)
class JobControllerSettings:
    """Settings of the controller. Times are in seconds."""

    workers: int = 16
    """Concurrent reconciles of jobs."""
    workers_for_others: int = 4
    """Concurrent reconciles of flows; likewise of cron jobs, queues, and PodGroups of pods without a job."""
    pods_at_once: int = WRITES_AT_ONCE
    """Concurrent pod requests."""
    api: str = names.API
    """The API groups whose objects are reconciled: one of :data:`volcanopy.api.bindings.APIS`."""
    scheduler_name: str = names.SCHEDULER
    """Pods with this ``spec.schedulerName`` that belong to no job get a PodGroup, as do those with the names of other
    served APIs."""
    queue_labels: tuple[str, ...] = ()
    """Labels of workloads that name the queue of their pods, such as kueue.x-k8s.io/queue-name."""
    gang_apis: tuple[str, ...] = ()
    """Other APIs whose PodGroups are gangs: names of :data:`volcanopy.api.gang_apis.GANG_APIS`."""
    config: Path | None = None
    """The configuration file: which HyperNodes are discovered. It is read again when it changes. None: none are."""
    settle: float = 0.02
    """Delay of a reconcile after a pod's change, to merge it with others of the job."""
    pace: float = 0.2
    """Least time between two reconciles of a job because of its pods."""
    status_settle: float = 1.0
    """Delay of a status with other counts only, or of the first one: what changes within it is one write. Up to five times as
    much with many jobs that wait for it at once, and as much for each 64 KiB of a larger job; four times as much more for the
    first status of a job whose pods start."""
    election: Election | None = None
    """The leader election; None: this is the only controller."""
    shutdown: float = 20.0
    """For finishing running reconciles at shutdown."""
    stuck_after: float = 600.0
    """The process is unhealthy when a reconcile makes no progress for this long."""


def status_delay(settle: float, waiting: int, job_size: int) -> float:
    """Return the seconds until a minor status of a job of so many bytes is due, while so many wait."""
    return max(spread(settle, 5 * settle, waiting), settle * job_size / _BYTES_OF_A_DELAY)


def is_starting(job: Json, status: Json, creates_pods: bool = False) -> bool:
    """Whether a status is the first one of a job that waits for its pods only: that it runs follows soon, as one write."""
    return not job.get("status") and (creates_pods or status["state"]["reason"] == "WaitingForPods")


def times_pending_pods(job: Json) -> bool:
    """Whether a policy acts on pods that are pending for some time, which a plan begins to measure."""
    parts = (job["spec"], *job["spec"]["tasks"])
    policies = (policy for part in parts for policy in part.get("policies") or ())
    return any(Event.POD_PENDING in (policy.get("event"), *(policy.get("events") or ())) for policy in policies)


class JobController(Controller):
    """The controller of the jobs of the API that the client is a view of. ``now`` is injected by tests."""

    of_kind = JOBS

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        settings: JobControllerSettings,
        now: Callable[[], datetime] = machine.utc_now,
        plugins: Registry = JOB_PLUGINS,
        home: str = "kube-system",
        run_times: RunTimes | None = None,
    ) -> None:
        """``home``: the namespace of the ConfigMap with learnt run times, unless ``run_times`` are shared."""
        super().__init__(client, recorder, now)
        self._settings, self._plugins = settings, plugins
        self._last: dict[str, tuple[float, float]] = {}
        """By key: when a job was last reconciled, and how long its plan took."""
        self._unwritten: dict[str, float] = {}
        """By key: when the changes of a job's status are due that may be written later."""
        self.cache = JobCache(self.wake)
        self.objects, self.errors, self.writes = self.cache.jobs, self.cache.errors, self.cache.writes
        self.queue.is_heavy = self._is_large
        registry.JOBS.follow(self.cache, jobs_by_phase)
        self.history = JobHistoryWriter(client, now) if client.of_api(JOB_HISTORIES) is JOB_HISTORIES else None
        self.run_times = run_times or RunTimes(client, home)
        ending = Ending(self.history, self.run_times)
        self._steps = Steps()
        self._written: Counter[str] = Counter()
        """By key: the writes of the step in progress that succeeded."""
        self._effects = JobEffects(client, self.cache, recorder, now, settings.pods_at_once, ending, self._note_write)

    def wake(self, key: str, urgency: Urgency = Urgency.NOW) -> None:
        """Reconcile a job now, a little later, or when its status is due."""
        match urgency:
            case Urgency.NOW:
                self._reconcile_after(key, 0.0)
            case Urgency.SOON:
                last, took = self._last.get(key, (0.0, 0.0))
                # A large job takes longer to plan and is reconciled less often: at most a tenth of the time.
                pace = max(self._settings.pace, took * 10)
                self._reconcile_after(key, max(self._settings.settle, last + pace - asyncio.get_running_loop().time()))
            case Urgency.STATUS:
                self._reconcile_after(key, self._until_status(key, starting=not self.cache.jobs[key].get("status")))

    def _until_status(self, key: str, *, starting: bool) -> float:
        """Return the seconds until a minor change of a job's status is due, noted now if it is the first one."""
        now, settle = asyncio.get_running_loop().time(), self._settings.status_settle
        if key not in self._unwritten:
            self._unwritten[key] = now + status_delay(settle, len(self._unwritten), self.cache.size(key))
        return self._unwritten[key] - now + (4 * settle if starting else 0.0)

    def _reconcile_after(self, key: str, seconds: float) -> None:
        """Make another plan then; until then the current one is continued."""
        self._steps.changed(key, asyncio.get_running_loop().time() + seconds)
        self.queue.add(key, seconds)

    def _is_large(self, key: str) -> bool:
        return self.cache.size(key) >= LARGE

    def _note_write(self, key: str) -> None:
        self._written[key] += 1
        self.queue.progress(key)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the kinds of jobs and Commands."""
        return (self.kind, self.client.of_api(COMMANDS))

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a job or a Command."""
        if manifest.get("kind") == COMMANDS.kind:
            self.cache.command_event(event, manifest)
            return
        if event == "DELETED" and self.history is not None:
            self._record_deleted(manifest, self.history)
        self.cache.job_event(event, manifest)

    def _record_deleted(self, manifest: Json, history: JobHistoryWriter) -> None:
        try:
            job = BatchJob.read(manifest)
        except InvalidObjectError:
            return
        observed, now = self.cache.remains(manifest), self.now()
        if not has_ended(job):
            status = accounted(job, job.status, observed.members(job), None, observed.disruptions, now)
            job = job.model_copy(update={"status": status})
        history.deleted(job)

    def exists(self, key: str) -> bool:
        """Whether there is a job of this key."""
        if super().exists(key):
            return True
        self._last.pop(key, None)
        self._unwritten.pop(key, None)
        self._steps.forget(key)
        return False

    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Carry out a step of a job's plan: of a new one, or of the current one as long as nothing needs another."""
        clock, key = asyncio.get_running_loop().time, key_of(manifest)
        removed: Sequence[Pod] = ()
        step = self._steps.next(key, clock())
        if step is None:
            planned = await self._planned(key, manifest)
            if planned is None:
                return None
            removed, plan = planned
            step = self._steps.begin(key, plan)
        started = clock()
        self._written[key] = 0
        try:
            error = await self._effects.carry_out(manifest, step, removed)
            if error is not None and not self._written[key]:
                raise error
        except BaseException as raised:
            self._steps.stop(key, probe=isinstance(raised, Exception) and concerns_all(raised))
            raise
        finally:
            del self._written[key]
        self._steps.done(key, clock() - started, error)
        self._continue(key, step)
        return None if self._steps.remain(key) else step.again

    async def _planned(self, key: str, manifest: Json) -> tuple[Sequence[Pod], JobPlan] | None:
        """Return the removed pods and the plan of a job; None if it is not valid."""
        if (job := self.readable(BatchJob, manifest)) is None:
            return None
        started = asyncio.get_running_loop().time()
        observed = replace(
            self.cache.observed(key),
            learnt=self.run_times.estimate(manifest),
            learnt_of_others=self.run_times.of_others(manifest),
            learnt_by_alternative=self.run_times.of_alternatives(manifest),
            pods_before_admission=self.cache.backlog.permits(job.spec.queue, job.spec.replicas, job.spec.needed),
        )
        planned = partial(reconcile, job, observed, self.now(), self._plugins)
        # On a thread the plan of a large job does not delay the others for as long as it takes.
        plan = await asyncio.to_thread(planned) if max(len(observed.pods), job.spec.replicas) > _LARGE else planned()
        self._last[key] = (started, asyncio.get_running_loop().time() - started)
        return observed.removed, self._paced(key, plan)

    def _continue(self, key: str, step: JobPlan) -> None:
        """Queue the next step of a plan, and another plan where the watch will show nothing new."""
        if self._steps.remain(key):
            self.queue.again(key)
        # The objects of a stopped job go, and its time to live begins, after its status. The status counts created pods.
        if any(
            isinstance(effect, UpdateStatus) and effect.status["state"]["phase"] in STOPPED for effect in step.effects
        ):
            self.wake(key, Urgency.SOON)
        elif any(isinstance(effect, CreatePod) for effect in step.effects) and key in self.cache.jobs:
            self.wake(key, Urgency.SOON if times_pending_pods(self.cache.jobs[key]) else Urgency.STATUS)

    def _paced(self, key: str, plan: JobPlan) -> JobPlan:
        """Return the plan without a minor status, and its events, that may still be written later."""
        minor = [effect for effect in plan.effects if isinstance(effect, UpdateStatus) and effect.minor]
        if not minor:
            self._unwritten.pop(key, None)
            return plan
        creates_pods = any(isinstance(effect, CreatePod) for effect in plan.effects)
        wait = self._until_status(key, starting=is_starting(self.cache.jobs[key], minor[0].status, creates_pods))
        if wait <= 0:
            del self._unwritten[key]
            return plan
        self._reconcile_after(key, wait)
        kept = (effect for effect in plan.effects if not isinstance(effect, UpdateStatus | RecordEvent))
        return JobPlan(tuple(kept), plan.again)
