"""Which of several served APIs have their definitions in the cluster.

The first API of a process must be installed. The definitions of a further one, those of Volcano's kinds, are in clusters in which
Volcano was, and where an administrator has applied them. A process that has started without them ends when they appear: the next
start serves them.
"""

import asyncio
from collections.abc import Sequence

import structlog

from volcanopy.api import names
from volcanopy.api.bindings import Binding
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.services.process.supervisor import Supervisor

log = structlog.get_logger(__name__)

PERIOD = 60.0
"""Seconds between two searches for definitions."""
_RETRY = 1.0
_REQUIRED = (names.BATCH_V1ALPHA1, names.SCHEDULING_V1BETA1, names.BUS_V1ALPHA1)


class InstalledApis:
    """The APIs of a process: the first one, and those whose definitions exist when it starts."""

    def __init__(self, client: Client, bindings: Sequence[Binding], *, period: float = PERIOD) -> None:
        self._client, self._bindings, self._period = client, tuple(bindings), period
        self._absent: list[Binding] = []
        self._appeared = ""

    async def installed(self) -> tuple[Binding, ...]:
        """Return the APIs to serve; asks until the server answers."""
        first, *others = self._bindings
        self._absent = [binding for binding in others if not await self._answered(binding)]
        for binding in self._absent:
            log.info("API not installed: not served", api=binding.name)
        return (first, *(binding for binding in others if binding not in self._absent))

    def watch(self, supervisor: Supervisor) -> None:
        """Let the supervisor end this process when the definitions of a further API appear."""
        if self._absent:
            supervisor.add("definitions of further APIs", self._follow)
            supervisor.check("definitions", lambda: self._appeared)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            for binding in self._absent:
                if await self._answered(binding):
                    self._appeared = f"the definitions of the API {binding.name} were installed: served after a restart"

    async def _answered(self, binding: Binding) -> bool:
        while True:
            try:
                for version in _REQUIRED:
                    await self._client.get_raw(f"/apis/{binding.api_version(version)}")
            except NotFound:
                return False
            except KubeError as error:
                log.warning("served APIs not known yet", error=str(error))
                await asyncio.sleep(_RETRY)
            else:
                return True
