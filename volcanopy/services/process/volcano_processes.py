"""Volcano's own scheduler and controllers: none may run beside a service that serves Volcano's API.

Both would act on the same objects: two schedulers bind pods to the same free resources, two controllers create pods of the same
job. A service therefore does not start while the process of Volcano that it replaces runs, and ends when one appears. Such a
process is known by the label of its pods, and by the Lease of its leader election, which it has outside a cluster as well.
Admission looks once, before it registers its webhooks: they would change and reject the objects of that Volcano.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

import structlog

from volcanopy.api.bindings import VOLCANO, Binding
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import LEASES, PODS
from volcanopy.services.process.supervisor import Supervisor

log = structlog.get_logger(__name__)

PERIOD = 15.0
"""Seconds between two checks."""
NAMESPACE = "volcano-system"
"""Where Volcano's Leases are."""
_APPS = {"scheduler": "volcano-scheduler", "controller": "volcano-controller", "admission": "volcano-admission"}
"""Values of the label ``app`` of Volcano's pods."""
_LEASES = {"scheduler": VOLCANO.scheduler_name, "controller": "vc-controller-manager"}


class VolcanoRunsError(KubeError):
    """A process of Volcano acts on the same objects; this one does not."""


class VolcanoProcesses:
    """Finds the process of Volcano that does the work of a component; none is sought unless Volcano's API is served."""

    def __init__(
        self,
        client: Client,
        component: Literal["scheduler", "controller", "admission"],
        bindings: Iterable[Binding],
        *,
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        self._client, self._component, self._now = client, component, now
        self._served = VOLCANO in bindings
        self._problem = ""

    async def ensure_none(self) -> None:
        """Check once. Raises VolcanoRunsError if there is such a process."""
        await self.check()
        if self._problem:
            raise VolcanoRunsError(self._problem)

    def watch(self, supervisor: Supervisor) -> None:
        """Let the supervisor end this process when such a process appears."""
        if self._served:
            supervisor.add("processes of Volcano", self._follow)
            supervisor.check(f"other {self._component}", lambda: self._problem)

    async def _follow(self) -> None:
        """Check for ever. A check that fails is repeated later."""
        while True:
            await asyncio.sleep(PERIOD)
            try:
                await self.check()
            except KubeError as error:
                log.warning("processes of Volcano not checked", error=str(error))

    async def check(self) -> None:
        """Look for a process of Volcano. Raises KubeError."""
        if not self._served:
            return
        process = await self._pod() or await self._holder()
        self._problem = process and (
            f"Volcano's {self._component} runs in this cluster ({process}) and acts on the same objects: "
            f"stop it, or start without Volcano's API (--api volcanopy)"
        )

    async def _pod(self) -> str:
        selected = {"labelSelector": f"app={_APPS[self._component]}", "fieldSelector": "status.phase=Running"}
        # From the server's cache: of the state of this moment it may have to read every pod of the cluster from etcd.
        path = f"{PODS.path()}?{urlencode(selected | {'resourceVersion': '0'})}"
        pods = json.loads(await self._client.get_raw(path))["items"]
        running = sorted(map(_key, pods))
        return f'pod "{running[0]}"' if running else ""

    async def _holder(self) -> str:
        name = _LEASES.get(self._component)
        if name is None:
            return ""
        try:
            lease = await self._client.get(LEASES, NAMESPACE, name)
        except (NotFound, Forbidden):
            return ""
        spec = lease.get("spec") or {}
        renewed = spec.get("renewTime")
        if not spec.get("holderIdentity") or not isinstance(renewed, str):
            return ""
        age = self._now() - datetime.fromisoformat(renewed)
        if age > timedelta(seconds=float(spec.get("leaseDurationSeconds") or 0)):
            return ""
        return f'Lease "{NAMESPACE}/{name}" of {spec["holderIdentity"]}'


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
