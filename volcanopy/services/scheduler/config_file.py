"""The scheduler's configuration file, read again when it changes; a broken one changes nothing."""

import asyncio
from functools import partial
from pathlib import Path

import structlog

from volcanopy.scheduler.framework.config import ConfigError, SchedulerConfig, default, parse
from volcanopy.scheduler.framework.registry import Registry
from volcanopy.services.process.watched_file import RereadFile

log = structlog.get_logger(__name__)


class ConfigFile(RereadFile[SchedulerConfig]):
    """The configuration in force: ``current`` is the last good one."""

    def __init__(self, path: Path | None, registry: Registry) -> None:
        """Reads the file; raises ConfigError, naming the key and the fix. No path: the built-in default, for ever."""
        self.changed = asyncio.Event()
        """Set when there is another configuration; cleared by whoever waits for it."""
        read = partial(parse, registry=registry)
        super().__init__(path, "scheduler configuration", read, ConfigError, partial(default, registry))

    def taken(self) -> None:
        """There is another configuration."""
        self.changed.set()
        actions = ", ".join(self.current.actions)
        log.info("the scheduler configuration has changed", actions=actions, file=str(self.path))

    async def follow(self, period: float) -> None:
        """Look at the file every so many seconds, for ever; :attr:`current` changes with it."""
        while self.path is not None:
            await asyncio.sleep(period)
            self.reload()
