"""The controller of job flows, with the probes of their dependencies."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import structlog

from volcanopy.api.core import Pod
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.flow_jobs import CommandJob, FlowObserved, PodProbe
from volcanopy.jobcontroller.flows import dependents, reconcile_flow
from volcanopy.jobcontroller.plan import UpdateStatus
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, FLOWS, JOBS, TEMPLATES, is_of
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.job_cache import key_of
from volcanopy.services.controllers.owned_jobs import JobOwnerController
from volcanopy.services.controllers.reconcile_metrics import flow_changed
from volcanopy.services.controllers.steps import FIRST_WRITES

log = structlog.get_logger(__name__)


PROBE_TIMEOUT = 2.0
"""Seconds that a pod has to answer a probe."""
PROBES_AT_ONCE = 16
"""Probes of a flow in flight."""
PROBES_TIMEOUT = 5.0
"""Seconds for the probes of a flow: thousands of pods that answer, tens that do not."""

PodsOf = Callable[[str], Iterable[Pod]]
"""Returns the pods of a job, by the job's uid."""


class FlowController(JobOwnerController):
    """Creates the jobs of flows in the order of their dependencies. ``now`` is injected by tests."""

    of_kind = FLOWS

    def __init__(
        self, client: Client, recorder: EventRecorder, pods_of: PodsOf, now: Callable[[], datetime] = machine.utc_now
    ) -> None:
        super().__init__(client, recorder, now)
        self._pods_of = pods_of
        self._template_kind = client.of_api(TEMPLATES)
        self._templates: dict[str, JobTemplate] = {}
        self._flows: defaultdict[str, set[str]] = defaultdict(set)
        """By key of a template: the keys of the flows that use it."""

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the kinds of flows, templates and jobs."""
        return (*super().kinds(), self._template_kind)

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a flow, a template or a job that was listed, added, changed or deleted."""
        if is_of(self._template_kind, manifest):
            self._template(event, manifest)
        else:
            super().event(event, manifest)

    def _template(self, event: str | None, manifest: Json) -> None:
        key = key_of(manifest)
        before = self._templates.pop(key, None)
        if event != "DELETED":
            try:
                self._templates[key] = after = JobTemplate.read(manifest)
            except InvalidObjectError as error:
                log.warning("invalid JobTemplate ignored", key=key, error=str(error))
                return
            if before is not None and _content(before) == _content(after):
                return
        for flow in self._flows.get(key, ()):
            self.queue.add(flow)

    def object_event(self, event: str | None, manifest: Json) -> None:
        """Take a flow that was listed, added, changed or deleted."""
        key = key_of(manifest)
        before = _template_keys(self.objects.get(key, manifest))
        super().object_event(event, manifest)
        after = _template_keys(self.objects[key]) if key in self.objects else set()
        for template in after:
            self._flows[template].add(key)
        for template in before - after:
            self._flows[template].discard(key)
            if not self._flows[template]:
                del self._flows[template]

    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Reconcile a flow."""
        if (flow := self.readable(JobFlow, manifest)) is None:
            return None
        plan = reconcile_flow(flow, self._observed(flow, {}), self.now())
        if plan.pod_probes:
            answers = await probe(plan.pod_probes)
            if any(answers.values()):
                plan = reconcile_flow(flow, self._observed(flow, answers), self.now())
        step = self.step(manifest, plan)
        for effect in step:
            self.queue.progress(key_of(manifest))
            match effect:
                case UpdateStatus():
                    before, manifest = manifest, await self.write_status(manifest, effect.status)
                    flow_changed(before, manifest)
                case CommandJob():
                    await self._command(flow.metadata.namespace, effect)
                case _:
                    await self.apply(manifest, effect, "Created")
        if len(step) < len(plan.effects):
            return None
        if not await self._write_templates(flow, FIRST_WRITES - len(step)):
            self.queue.again(key_of(manifest))
            return None
        return plan.again

    def _observed(self, flow: JobFlow, answers: Mapping[PodProbe, bool]) -> FlowObserved:
        namespace = flow.metadata.namespace
        jobs = self.jobs.of(flow.metadata.uid)
        used = {step.template_name for step in flow.spec.jobs}
        templates = {name: self._templates.get(f"{namespace}/{name}") for name in used}
        probed = any(step.depends_on and step.depends_on.probe for step in flow.spec.jobs)
        return FlowObserved(
            templates={name: template for name, template in templates.items() if template is not None},
            jobs=jobs,
            pods={name: tuple(self._pods_of(job.metadata.uid)) for name, job in jobs.items()} if probed else {},
            answers=answers,
            trouble=self.errors.get(flow.metadata.uid, ""),
        )

    async def _command(self, namespace: str, effect: CommandJob) -> None:
        manifest = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {"name": f"{effect.name}-{effect.uid}-end", "namespace": namespace},
            "action": effect.action,
            "target": {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": effect.name, "uid": effect.uid},
            "reason": "FlowFailed",
            "message": effect.message,
        }
        try:
            await self.client.create(COMMANDS, namespace, manifest)
        except AlreadyExists:
            log.debug("Command exists already", job=f"{namespace}/{effect.name}")

    async def _write_templates(self, flow: JobFlow, writes: int) -> bool:
        """Write the jobs created from them into the statuses of templates, at most so many; return whether all are written."""
        namespace = flow.metadata.namespace
        for name in sorted({step.template_name for step in flow.spec.jobs}):
            template = self._templates.get(f"{namespace}/{name}")
            if template is None or (jobs := dependents(template, self.jobs.of_template(namespace, name))) is None:
                continue
            if writes <= 0:
                return False
            writes -= 1
            status = {"status": {"jobDependsOnList": jobs}}
            written = await self.client.patch_status(self._template_kind, namespace, name, status)
            self._templates[f"{namespace}/{name}"] = JobTemplate.read(written)
        return True


def _template_keys(flow: Json) -> set[str]:
    """Return the keys of the templates that a flow uses."""
    namespace, steps = flow["metadata"]["namespace"], (flow.get("spec") or {}).get("flows") or ()
    return {f"{namespace}/{step.get('template') or step.get('name')}" for step in steps}


def _content(template: JobTemplate) -> tuple[object, ...]:
    """Return what flows need of a template: not its status."""
    meta = template.metadata
    return meta.uid, meta.labels, meta.annotations, template.spec


async def probe(pod_probes: Sequence[PodProbe]) -> dict[PodProbe, bool]:
    """Probe pods, a few at once; returns which probes succeeded. One that has no result in time has failed.

    So a flow with very many probes takes neither the connections of this process nor a worker for long.
    """
    answers = dict.fromkeys(pod_probes, False)
    remaining = iter(pod_probes)

    async def ask(session: aiohttp.ClientSession) -> None:
        for pod_probe in remaining:
            answers[pod_probe] = await _answers(session, pod_probe)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT)) as session:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBES_TIMEOUT):
                await asyncio.gather(*(ask(session) for _ in range(PROBES_AT_ONCE)))
    return answers


async def _answers(session: aiohttp.ClientSession, pod_probe: PodProbe) -> bool:
    try:
        if pod_probe.path:
            name, value = pod_probe.header
            host = f"[{pod_probe.ip}]" if ":" in pod_probe.ip else pod_probe.ip
            url = f"http://{host}:{pod_probe.port}{pod_probe.path}"
            async with session.get(url, headers={name: value} if name else {}, allow_redirects=False) as response:
                return 200 <= response.status < 400
        async with asyncio.timeout(PROBE_TIMEOUT):
            _, writer = await asyncio.open_connection(pod_probe.ip, pod_probe.port)
        writer.close()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):  # the last: a header that is none
        return False
    return True
