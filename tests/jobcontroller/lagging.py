"""A cluster whose controller gets its watch events late, through the real cache of the service.

Objects change at once; their events wait in a queue for each kind, as on the watches of a server, and are delivered to
the cache on request of a test. Events may be repeated, or lost and replaced by a relist. The controller may be restarted
with an empty cache. Requests may fail, before or after they have been executed.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec

from tests.jobcontroller.world import World, merge
from volcanopy.api.batch import BatchJob, Restart
from volcanopy.api.core import Pod, PodGroup
from volcanopy.jobcontroller import plan as effects
from volcanopy.jobcontroller.observed import JobPod, Observed
from volcanopy.jobcontroller.phases import LIVE
from volcanopy.jobcontroller.plan import JobPlan
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.services.controllers.job_cache import JobCache, Urgency

Json = dict[str, Any]
News = tuple[str, str, Json]
"""Kind, what happened, the object."""
KINDS = ("pods", "groups", "jobs", "commands")


class FaultError(Exception):
    """A request has failed: the rest of the plan is not carried out."""


class LaggingWorld(World):
    """One job (after another, of one name) and what exists of it; ``cache`` is what the controller knows."""

    def __init__(self, manifest: Json) -> None:
        super().__init__(manifest)
        self.remaining: JobPlan | None = None
        """What is left of the plan in progress."""
        self.cache = JobCache(self._wake)
        self.births = 0
        self.last_uid = str(manifest["metadata"]["uid"])
        self._lines: dict[str, list[News]] = {kind: [] for kind in KINDS}
        self._recorded: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
        self._shown: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
        self._told: dict[str, News] = {}
        self.restart()

    # News.

    def _truth(self, kind: str) -> dict[str, Json]:
        match kind:
            case "pods":
                return self.pods
            case "groups":
                return {_key(self.pod_group): self.pod_group} if self.pod_group else {}
            case "jobs":
                return {_key(self.job): self.job} if self.job else {}
            case _:
                return self.commands

    def record(self) -> None:
        """What has changed since the last time goes into the lines."""
        for kind in KINDS:
            self._lines[kind] += self._differences(kind, self._recorded[kind])
            self._recorded[kind] = deepcopy(self._truth(kind))

    def _differences(self, kind: str, before: dict[str, Json]) -> Iterator[News]:
        now = self._truth(kind)
        for key, old in before.items():
            new = now.get(key)
            if new is None or new["metadata"]["uid"] != old["metadata"]["uid"]:
                yield kind, "DELETED", old
        for key, new in now.items():
            known = before.get(key)
            if known is None or known["metadata"]["uid"] != new["metadata"]["uid"]:
                yield kind, "ADDED", deepcopy(new)
            elif known != new:
                yield kind, "MODIFIED", deepcopy(new)

    def deliver(self, kind: str, most: int = 1) -> None:
        """Deliver the next changes of a kind to the controller."""
        self.record()
        line = self._lines[kind]
        for news in line[:most]:
            self._tell(news)
        del line[:most]

    def deliver_all(self) -> None:
        """Deliver all changes to the controller."""
        for kind in KINDS:
            self.deliver(kind, 10_000)

    def repeat(self, kind: str) -> None:
        """The last news of a kind come again; of jobs and Commands only, since our own watches sort repetitions out."""
        if kind in self._told:
            self._tell(self._told[kind])

    def relist(self, kind: str) -> None:
        """Drop the queued changes of a kind and deliver its current state instead."""
        self.record()
        for news in list(self._differences(kind, self._shown[kind])):
            self._tell(news)
        self._lines[kind] = []
        if kind in {"pods", "groups"}:
            self.cache.listed("pods" if kind == "pods" else "podgroups", self._uid)

    def _new(self, manifest: Json) -> Json:
        made = super()._new(manifest)
        made["metadata"]["resourceVersion"] = str(self._uid)
        return made

    def _tell(self, news: News) -> None:
        kind, what, result = news
        self._told[kind] = news
        self._shown[kind].pop(_key(result), None)
        if what != "DELETED":
            self._shown[kind][_key(result)] = result
        match kind:
            case "pods":
                self.cache.pod_changes([Change(_CHANGES[what], msgspec.convert(result, Pod))])
            case "groups":
                self.cache.pod_group_changes([Change(_CHANGES[what], msgspec.convert(result, PodGroup))])
            case "jobs":
                self.cache.job_event(what, deepcopy(result))
            case _:
                self.cache.command_event(what, deepcopy(result))

    def restart(self) -> None:
        """A controller that knows nothing looks at everything."""
        self.cache, self.remaining = JobCache(self._wake), None
        self._told = {}
        for kind in KINDS:
            self._lines[kind], self._shown[kind] = [], {}
            self._recorded[kind] = deepcopy(self._truth(kind))
            for result in self._recorded[kind].values():
                self._tell((kind, "ADDED", result))
        self.cache.listed("pods", self._uid)
        self.cache.listed("podgroups", self._uid)

    # The controller.

    def plan(self) -> JobPlan:
        """What the controller would do now, by what it knows."""
        raw = self.cache.jobs.get("ns/job")
        return reconcile(BatchJob.read(raw), self.cache.observed("ns/job"), self.now) if raw else JobPlan()

    def step(self, crash_after: int | None = None, *, lost: int | None = None) -> JobPlan:
        """One reconcile, carried out; up to some effect, where the controller dies, or the answer to it is lost."""
        plan, self.remaining = self.plan(), None
        return self._carry_out_plan(plan, crash_after, lost)

    def step_of(self, writes: int) -> None:
        """Carry out so many writes of the plan in progress, or of a new one."""
        plan = self.plan() if self.remaining is None else self.remaining
        step, remaining = plan.cut(writes)
        self.remaining = remaining if remaining.effects else None
        self._carry_out_plan(step)

    def _wake(self, key: str, urgency: Urgency) -> None:
        """No timers: the test decides when the controller reconciles. It makes a new plan unless a pod has changed."""
        if urgency is Urgency.NOW:
            self.remaining = None

    def _carry_out_plan(self, plan: JobPlan, crash_after: int | None = None, lost: int | None = None) -> JobPlan:
        raw = self.cache.jobs.get("ns/job")
        if raw is None:
            return plan
        version = raw["metadata"]["resourceVersion"]
        owner = raw["metadata"]["uid"]
        removed = self.cache.observed("ns/job").removed
        if not any(isinstance(effect, effects.UpdateStatus) for effect in plan.effects):
            self.cache.counted(owner, removed)
        try:
            for number, effect in enumerate(plan.effects):
                if number == crash_after:
                    self.restart()
                    break
                known = self.cache
                if number == lost:
                    self.cache = JobCache(self._wake)  # what would be learnt from the answer
                    self.cache.jobs = dict(known.jobs)
                try:
                    version = self._carry_out(effect, version, owner)
                    if isinstance(effect, effects.UpdateStatus):
                        self.cache.counted(owner, removed)
                finally:
                    self.cache = known
                if number == lost:
                    break
        except FaultError:
            self.remaining = None
        self.record()
        return plan

    def _carry_out(self, effect: effects.Effect, version: str, owner: str) -> str:
        cache = self.cache
        match effect:
            case effects.UpdateStatus():
                return self._status(effect, version, owner)
            case effects.CreatePod():
                name = effect.manifest["metadata"]["name"]
                if name not in self.pods:
                    self.births += 1
                    self.pods[name] = self._new(effect.manifest) | {"status": {"phase": "Pending"}}
                cache.pod_made(owner, msgspec.convert(_mine(self.pods[name], owner), Pod))
            case effects.DeletePod():
                self._stop(effect, version)
                cache.pod_going(owner, effect.name, effect.uid, self.now)
            case effects.CreatePodGroup():
                if self.pod_group is None:
                    self.pod_group = self._new(effect.manifest) | {"status": {"phase": "Pending"}}
                cache.pod_group_made(owner, msgspec.convert(_mine(self.pod_group, owner), PodGroup))
            case effects.UpdatePodGroup():
                if self.pod_group is None or self.pod_group["metadata"]["name"] != effect.name:
                    raise FaultError("not found")
                merge(self.pod_group, effect.patch)
                cache.pod_group_changed(owner, msgspec.convert(self.pod_group, PodGroup))
            case effects.DeletePodGroup():
                self._apply(effect)
                cache.pod_group_going(owner, effect.uid, self.now)
            case effects.ApplyObject():
                merge(_mine(self.objects.setdefault(effect.key, deepcopy(effect.manifest)), owner), effect.manifest)
                cache.applied_now(owner, effect.key, effect.digest)
            case effects.DeleteObject():
                if effect.key in self.objects and owner_of(self.objects[effect.key]) == owner:
                    self._apply(effect)
                cache.applied.get(owner, {}).pop(effect.key, None)
            case effects.DeleteCommand():
                self._apply(effect)
                cache.command_done("ns/job", effect.uid)
            case effects.DeleteJob():
                if self.job and self.job["metadata"]["uid"] == effect.uid:
                    self.job = None
            case effects.RecordEvent():
                self.events.append(effect)
        return version

    def _status(self, effect: effects.UpdateStatus, version: str, owner: str) -> str:
        if self.job is None or self.job["metadata"]["uid"] != owner:
            self.cache.drop("ns/job")
            raise FaultError("the job is gone")
        if self.job["metadata"]["resourceVersion"] != version:
            self.cache.written(deepcopy(self.job))
            raise FaultError("the job has changed")
        version = self._write_status(effect.status)
        self.cache.written(deepcopy(self.job))
        return version

    def _stop(self, effect: effects.DeletePod, version: str) -> None:
        pod = self.pods.get(effect.name)
        if pod is None or pod["metadata"]["uid"] != effect.uid:
            return
        if self.job and self.job["metadata"]["resourceVersion"] == version:
            self._has_reason(pod)
        self.delete(effect.name)

    def _has_reason(self, manifest: Json) -> None:
        """A pod is deleted only if the written status has a reason for it."""
        job = self.read()
        if job.status.state.phase not in LIVE:
            return
        (member,) = Observed(pods=(msgspec.convert(manifest, Pod),)).members(job)
        task = job.spec.task(member.task)
        assert (
            member.index >= (task.replicas if task else 0)
            or member.version < job.status.version
            or any(_replaces(restart, member) for restart in job.status.restarts)
        ), f"{member.name} is stopped without reason"

    def settle(self, limit: int = 40) -> "LaggingWorld":
        """Deliver and reconcile until there is nothing to do."""
        for _ in range(limit):
            self.collect()
            self.deliver_all()
            plan = self.step()
            self.remove_terminated()
            if not [effect for effect in plan.effects if not isinstance(effect, effects.RecordEvent)]:
                return self
        raise AssertionError(f"does not come to rest:\n{plan}")

    # What others do.

    def collect(self) -> None:
        """The garbage collector takes what belongs to a job that is no more."""
        alive = self.job["metadata"]["uid"] if self.job else ""
        for name, pod in self.pods.items():
            if owner_of(pod) != alive and "deletionTimestamp" not in pod["metadata"]:
                self.delete(name)
        if self.pod_group and owner_of(self.pod_group) != alive:
            self.pod_group = None
        self.objects = {key: obj for key, obj in self.objects.items() if owner_of(obj) == alive}
        self.commands = {name: command for name, command in self.commands.items() if command["target"]["uid"] == alive}

    def recreate(self, manifest: Json) -> None:
        """Another job of the name comes, where the last one is gone."""
        self.births += 1
        self.last_uid = f"job-{self.births}"
        made = deepcopy(manifest)
        made["metadata"] |= {"uid": self.last_uid, "resourceVersion": str(10_000 * (self.births + 1))}
        self.job = made

    def restart_container(self, name: str) -> None:
        """A container of a pod is restarted on the spot."""
        statuses = self.pods[name]["status"].setdefault("containerStatuses", [{"name": "main", "state": {}}])
        statuses[0]["restartCount"] = statuses[0].get("restartCount", 0) + 1


def _replaces(restart: Restart, member: JobPod) -> bool:
    return (
        member.retry < restart.before
        and restart.task in {"", member.task}
        and restart.partition in {"", member.partition}
        and restart.pod in {"", member.name}
    )


def _key(manifest: Json) -> str:
    return str(manifest["metadata"]["name"])


def owner_of(manifest: Json) -> str:
    """The uid of the job that an object belongs to."""
    return str(manifest["metadata"]["ownerReferences"][0]["uid"])


def _mine(manifest: Json, owner: str) -> Json:
    if owner_of(manifest) != owner:
        raise FaultError("the name is taken")
    return manifest


_CHANGES = {"ADDED": ChangeType.ADDED, "MODIFIED": ChangeType.MODIFIED, "DELETED": ChangeType.DELETED}
