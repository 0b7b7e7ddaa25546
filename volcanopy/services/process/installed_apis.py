"""Which of several served APIs have their definitions in the cluster.

The first API of a process must be installed. The definitions of a further one, those of Volcano's kinds, are in clusters in which
Volcano was, and where an administrator has applied them. A process that has started without them ends when they appear: the next
start serves them.
"""

import asyncio

import structlog

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS, POD_GROUPS
from volcanopy.services.process.startup import cancelled_by
from volcanopy.services.process.supervisor import Supervisor

log = structlog.get_logger(__name__)

PERIOD = 60.0
"""Seconds between two searches for definitions."""
_RETRY = 1.0
_REQUIRED = (JOBS, POD_GROUPS, COMMANDS)


class InstalledApis:
    """The APIs of a process: the first one, and those whose definitions exist when it starts."""

    def __init__(self, apis: ApiViews, *, period: float = PERIOD) -> None:
        self._apis, self._period = apis, period
        self._absent: list[Client] = []
        self._appeared = ""

    async def installed(self, stop: asyncio.Event) -> ApiViews:
        """Return the APIs to serve; asks until the server answers, or the task is cancelled by ``stop``."""
        _, *others = self._apis
        async with cancelled_by(stop):
            self._absent = [view for view in others if not await self._answered(view)]
        for view in self._absent:
            log.info("API not installed: not served", api=view.api)
        return self._apis.only(lambda view: view not in self._absent)

    def watch(self, supervisor: Supervisor) -> None:
        """Let the supervisor end this process when the definitions of a further API appear."""
        if self._absent:
            supervisor.add("definitions of further APIs", self._follow)
            supervisor.check("definitions", lambda: self._appeared)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            for view in self._absent:
                if await self._answered(view):
                    self._appeared = f"the definitions of the API {view.api} were installed: served after a restart"

    async def _answered(self, view: Client) -> bool:
        while True:
            try:
                for kind in _REQUIRED:
                    await view.get_raw(f"/apis/{view.of_api(kind).api_version}")
            except NotFound:
                return False
            except KubeError as error:
                log.warning("served APIs not known yet", error=str(error))
                await asyncio.sleep(_RETRY)
            else:
                return True
