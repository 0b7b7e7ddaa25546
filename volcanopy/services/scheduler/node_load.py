"""Measures of nodes: read periodically from the configured sources into the scheduler's state.

A source that fails is retried with back-off; its last values stay in force until they are too old.
"""

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import Backoff
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import Measured
from volcanopy.scheduler.policy.metrics_source import Metrics
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy.services.scheduler.measure_sources import source
from volcanopy.services.scheduler.node_load_sources import LoadError, MeasureSource
from volcanopy.services.scheduler.state.store import Store

log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Seconds between attempts while all sources fail."""

Opener = Callable[[Metrics, Client, State], MeasureSource]


class LoadFollower:
    """Keeps the measures in the state up to date."""

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
                async with self._opener(settings, self._client, self._store.state) as opened:
                    await self._measure(opened, settings)

    async def _measure(self, opened: MeasureSource, settings: Metrics) -> None:
        """Read these sources while they are the configured ones."""
        backoff = Backoff(self._rng, _FIRST_PAUSE, _LONGEST_PAUSE)
        while self._config.current.metrics == settings:
            try:
                answer = await opened.measure()
            except LoadError as fault:
                self._note(str(fault))
                pause = backoff.next()
            else:
                self._note(answer.problem)
                backoff.reset()
                measured = Measured(answer.nodes, settings.interval, settings.max_age)
                self._store.state.set_measures(measured)
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
        if problem and problem != self.problem:
            log.warning("measures not available", problem=problem)
        elif self.problem and not problem:
            log.info("measures available again")
        self.problem = problem

    def _forget(self) -> None:
        if self._store.state.measured is not None:
            self._store.state.set_measures(None)
            self._store.changed.set()
