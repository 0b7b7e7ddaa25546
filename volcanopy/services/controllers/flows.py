"""The controller of flows: what changes wakes one, its plan is carried out, and what it asks pods is asked.

Answers are kept for a short while only: a pod that answered may have gone since.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import aiohttp

from volcanopy.api import names
from volcanopy.api.core import Pod
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.flow_plan import (
    CommandJob,
    CreateJob,
    FlowObserved,
    Knock,
    RemoveJob,
    UpdateFlowStatus,
)
from volcanopy.jobcontroller.flows import dependents, reconcile_flow
from volcanopy.jobcontroller.plan import RecordEvent
from volcanopy.kube.apply.event_writer import EventRecorder
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.controller import Controller, utc_now
from volcanopy.services.controllers.effects import COMMANDS, JOBS
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_jobs import OwnedJobs
from volcanopy.services.controllers.reconcile_metrics import flow_changed

log = logging.getLogger(__name__)

FLOWS: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobFlow", "jobflows", True, dict)
TEMPLATES: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobTemplate", "jobtemplates", True, dict)

PATIENCE = 2.0
"""Seconds that a pod has to answer."""

PodsOf = Callable[[str], Iterable[Pod]]
"""The pods of a job, by the job's uid."""


class FlowController(Controller):
    """Makes the jobs of flows in their order. ``now`` is there for tests."""

    kind = FLOWS

    def __init__(
        self, client: Client, recorder: EventRecorder, pods_of: PodsOf, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(client, recorder, now)
        self._keys: dict[str, str] = {}
        self._jobs = OwnedJobs(("JobFlow",), self._wake)
        self._pods_of = pods_of
        self._templates: dict[str, JobTemplate] = {}
        self._unreadable: dict[str, str] = {}

    def watched(self) -> Sequence[Kind[Any]]:
        """Flows, their templates, and the jobs that they made."""
        return (FLOWS, TEMPLATES, JOBS)

    def told(self, event: str | None, found: Json) -> None:
        """A flow, a template or a job has changed."""
        match found.get("kind"):
            case "BatchJob":
                self._jobs.event(event, found)
            case "JobTemplate":
                self._template(event, found)
            case _:
                super().told(event, found)

    def changed(self, event: str | None, found: Json) -> None:
        """A flow has changed."""
        if event == "DELETED":
            self._keys.pop(uid_of(found), None)
        else:
            self._keys[uid_of(found)] = key_of(found)
        super().changed(event, found)

    def _wake(self, owner: str) -> None:
        if key := self._keys.get(owner):
            self.queue.add(key)

    def _template(self, event: str | None, found: Json) -> None:
        key = key_of(found)
        if event == "DELETED":
            self._templates.pop(key, None)
        else:
            try:
                self._templates[key] = JobTemplate.read(found)
            except InvalidObjectError as error:
                log.warning("JobTemplate %s is left alone: %s", key, error)
                return
        namespace = found["metadata"]["namespace"]
        for flow in self.found:
            if flow.partition("/")[0] == namespace:
                self.queue.add(flow)

    async def look(self, raw: Json) -> datetime | None:
        """Do what is to be done for a flow."""
        try:
            flow = JobFlow.read(raw)
        except InvalidObjectError as error:
            self.recorder.record(self.about(raw), "Warning", "Unreadable", str(error))
            return None
        plan = reconcile_flow(flow, self._observed(flow, {}), self.now())
        if plan.knocks:
            answers = await ask(plan.knocks)
            if any(answers.values()):
                plan = reconcile_flow(flow, self._observed(flow, answers), self.now())
        uid, namespace = uid_of(raw), raw["metadata"]["namespace"]
        for effect in plan.effects:
            match effect:
                case UpdateFlowStatus():
                    before, raw = raw, await self.write_status(raw, effect.status)
                    flow_changed(before, raw)
                case CreateJob():
                    self._jobs.response(await self.create_owned(JOBS, uid, effect.manifest))
                    self.recorder.record(self.about(raw), "Normal", "Created", str(effect))
                case RemoveJob():
                    await self.remove(JOBS, namespace, effect.name, effect.uid)
                case CommandJob():
                    await self._command(namespace, effect)
                case RecordEvent():
                    self.recorder.record(self.about(raw), effect.type, effect.reason, effect.message)
        await self._tell_templates(flow)
        return plan.again

    def _observed(self, flow: JobFlow, answers: Mapping[Knock, bool]) -> FlowObserved:
        namespace = flow.metadata.namespace
        jobs = self._jobs.of(flow.metadata.uid)
        wanted = {step.template_name for step in flow.spec.flows}
        templates = {name: self._templates.get(f"{namespace}/{name}") for name in wanted}
        probed = any(step.depends_on and step.depends_on.probe for step in flow.spec.flows)
        return FlowObserved(
            templates={name: one for name, one in templates.items() if one is not None},
            jobs=jobs,
            pods={name: tuple(self._pods_of(job.metadata.uid)) for name, job in jobs.items()} if probed else {},
            answers=answers,
            trouble=self.trouble.get(flow.metadata.uid, ""),
        )

    async def _command(self, namespace: str, effect: CommandJob) -> None:
        manifest = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {"name": f"{effect.name}-{effect.uid}-end", "namespace": namespace},
            "action": effect.action,
            "target": {"apiVersion": JOBS.api_version, "kind": "BatchJob", "name": effect.name, "uid": effect.uid},
            "reason": "FlowFailed",
            "message": effect.message,
        }
        try:
            await self.client.create(COMMANDS, namespace, manifest)
        except AlreadyExists:
            log.debug("job %s/%s has been told already", namespace, effect.name)

    async def _tell_templates(self, flow: JobFlow) -> None:
        """Write into the flow's templates which jobs were made from them."""
        namespace = flow.metadata.namespace
        made = self._made(namespace)
        for name in sorted({step.template_name for step in flow.spec.flows}):
            template = self._templates.get(f"{namespace}/{name}")
            if template is None or (jobs := dependents(template, made)) is None:
                continue
            status = {"status": {"jobDependsOnList": jobs}}
            written = await self.client.patch_status(TEMPLATES, namespace, name, status)
            self._templates[f"{namespace}/{name}"] = JobTemplate.read(written)

    def _made(self, namespace: str) -> dict[str, str]:
        """Which template each job of the namespace's flows was made from."""
        made = {}
        for uid, key in self._keys.items():
            if key.partition("/")[0] != namespace:
                continue
            for name, job in self._jobs.of(uid).items():
                source = (job.metadata.annotations or {}).get(names.CREATED_BY_TEMPLATE, "")
                made[name] = source.removeprefix(f"{namespace}.")
        return made


async def ask(knocks: Sequence[Knock]) -> dict[Knock, bool]:
    """Ask all these pods at once; which of them answered as they should."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        answers = await asyncio.gather(*(_answers(session, knock) for knock in knocks))
    return dict(zip(knocks, answers, strict=True))


async def _answers(session: aiohttp.ClientSession, knock: Knock) -> bool:
    try:
        if knock.path:
            name, value = knock.header
            host = f"[{knock.ip}]" if ":" in knock.ip else knock.ip
            url = f"http://{host}:{knock.port}{knock.path}"
            async with session.get(url, headers={name: value} if name else {}, allow_redirects=False) as response:
                return 200 <= response.status < 400
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(knock.ip, knock.port)
        writer.close()
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False
    return True
