"""The load of nodes: read periodically from the configured source into the scheduler's state.

A source that fails is retried with back-off; the last values stay in force until the plugins that read them consider them
too old.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random

import structlog

from volcanopy.api import quantity
from volcanopy.kube import machine
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import Backoff
from volcanopy.scheduler.framework.metrics_source import Metrics
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy.services.scheduler.node_load_sources import LoadError, NodeCapacities, NodeReports, Source, source

log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Seconds between attempts while a source fails."""

Opener = Callable[[Metrics, Client, NodeCapacities, NodeReports], Source]


class LoadFollower:
    """Keeps the nodes' load in the state up to date."""

    def __init__(
        self, store: Store, client: Client, config: ConfigFile, *, rng: Random | None = None, opener: Opener = source
    ) -> None:
        self._store, self._client, self._config, self._opener = store, client, config, opener
        self._rng = rng or machine.new_random()
        self.problem = ""
        """The error of the source, empty without one or without a source."""

    async def run(self) -> None:
        """Measure until cancelled; a changed configuration changes the source at once."""
        while True:
            settings = self._config.current.metrics
            self._config.changed.clear()
            self.problem = ""
            if settings is None:
                self._forget()
                await self._config.changed.wait()
            else:
                async with self._opener(
                    settings, self._client, self._capacities, self._store.state.numa.values
                ) as opened:
                    await self._measure(opened, settings)

    async def _measure(self, opened: Source, settings: Metrics) -> None:
        """Read this source while it is the configured one."""
        backoff = Backoff(self._rng, _FIRST_PAUSE, _LONGEST_PAUSE)
        while self._config.current.metrics == settings:
            try:
                loads = await opened.measure()
            except LoadError as fault:
                self._note(str(fault))
                pause = backoff.next()
            else:
                if self.problem:
                    log.info("node load available again", source=settings.type, nodes=len(loads))
                self.problem = ""
                backoff.reset()
                self._store.state.set_usage(loads, settings.interval)
                self._store.changed.set()
                pause = settings.interval.total_seconds()
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Wait until the next measurement is due or the configuration has changed."""
        try:
            async with asyncio.timeout(seconds):
                await self._config.changed.wait()
        except TimeoutError:
            return
        self._config.changed.clear()

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("node load not available", problem=problem)
        self.problem = problem

    def _forget(self) -> None:
        if self._store.state.measured is not None:
            self._store.state.set_usage({}, timedelta(seconds=30))
            self._store.changed.set()

    def _capacities(self) -> Mapping[str, Mapping[str, int]]:
        """Return the capacity of each node."""
        state = self._store.state
        nodes = [state.nodes.plain["objects"][row] for row in state.node_rows()]
        return {node.metadata.name: quantity.amounts(node.status.capacity or node.status.allocatable) for node in nodes}
