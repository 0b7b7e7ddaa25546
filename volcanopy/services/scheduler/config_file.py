"""The scheduler configuration file, read again when it changes; an invalid one is ignored."""

import asyncio
from functools import partial
from pathlib import Path

import structlog

from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.process.watched_file import RereadFile

log = structlog.get_logger(__name__)


class ConfigFile(RereadFile[SchedulerConfig]):
    """The scheduler configuration; ``current`` is the last valid one."""

    def __init__(self, path: Path | None, registry: Registry) -> None:
        """Read the file; raises ConfigError. No path: always the built-in default."""
        self.changed = asyncio.Event()
        """Set on a change; cleared by the waiting task."""
        read = partial(parse, registry=registry)
        super().__init__(path, "scheduler configuration", read, partial(default, registry))
        self._warn()

    def taken(self) -> None:
        """Signal and log a change."""
        self.changed.set()
        actions = ", ".join(self.current.actions)
        log.info("scheduler configuration changed", actions=actions, file=str(self.path))
        self._warn()

    def _warn(self) -> None:
        for warning in self.current.warnings:
            log.warning("scheduler configuration", warning=warning, file=str(self.path))

    async def follow(self, period: float) -> None:
        """Check the file every ``period`` seconds, for ever, and update :attr:`current`."""
        while self.path is not None:
            await asyncio.sleep(period)
            self.reload()
