"""How busy nodes really are: asked of the source that the configuration names, and handed to the state.

The scheduler works without: a source that does not answer is asked again, ever less often, and what it told before
stays in force for as long as the plugins that read it think it fresh.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random

import structlog

from volcanopy.api import quantity
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import Backoff
from volcanopy.scheduler.framework.metrics_source import Metrics
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy.services.scheduler.node_load_sources import LoadError, NodeCapacities, Source, source

log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Seconds between attempts while a source fails."""

Opener = Callable[[Metrics, Client, NodeCapacities], Source]


class LoadFollower:
    """Keeps the state's picture of the nodes' load current."""

    def __init__(
        self, store: Store, client: Client, config: ConfigFile, *, rng: Random | None = None, opener: Opener = source
    ) -> None:
        self._store, self._client, self._config, self._opener = store, client, config, opener
        self._rng = rng or Random()
        self.problem = ""
        """Why the source does not tell anything at the moment, as a sentence; empty if it does, or if there is none."""

    async def run(self) -> None:
        """Measure until cancelled; with another source as soon as the configuration names another."""
        while True:
            settings = self._config.current.metrics
            self._config.changed.clear()
            self.problem = ""
            if settings is None:
                self._forget()
                await self._config.changed.wait()
            else:
                async with self._opener(settings, self._client, self._rooms) as asked:
                    await self._measure(asked, settings)

    async def _measure(self, asked: Source, settings: Metrics) -> None:
        """Ask this source for as long as it is the one that is configured."""
        backoff = Backoff(self._rng, _FIRST_PAUSE, _LONGEST_PAUSE)
        while self._config.current.metrics == settings:
            try:
                loads = await asked.measure()
            except LoadError as fault:
                self._note(str(fault))
                pause = backoff.next()
            else:
                if self.problem:
                    log.info("the nodes' load is known again", source=settings.type, nodes=len(loads))
                self.problem = ""
                backoff.reset()
                self._store.state.set_usage(loads, settings.interval)
                self._store.changed.set()
                pause = settings.interval.total_seconds()
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Until the next question is due, or the configuration has changed."""
        try:
            async with asyncio.timeout(seconds):
                await self._config.changed.wait()
        except TimeoutError:
            return
        self._config.changed.clear()

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("the nodes' load cannot be measured; it is tried again", problem=problem)
        self.problem = problem

    def _forget(self) -> None:
        if self._store.state.measured is not None:
            self._store.state.set_usage({}, timedelta(seconds=30))
            self._store.changed.set()

    def _rooms(self) -> Mapping[str, Mapping[str, int]]:
        """What each node has."""
        state = self._store.state
        nodes = [state.nodes.plain["objects"][row] for row in state.node_rows()]
        return {one.metadata.name: quantity.amounts(one.status.capacity or one.status.allocatable) for one in nodes}
