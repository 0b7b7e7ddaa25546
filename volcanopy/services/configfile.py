"""The scheduler's configuration file, read again when it changes; a broken one changes nothing."""

import asyncio
import os
from pathlib import Path

import structlog

from volcanopy.scheduler.config import ConfigError, SchedulerConfig, default, parse
from volcanopy.scheduler.registry import Registry

log = structlog.get_logger(__name__)

_Mark = tuple[int, int, int] | None


class ConfigFile:
    """The configuration in force: ``current`` is the last good one."""

    def __init__(self, path: Path | None, registry: Registry) -> None:
        """Reads the file; raises ConfigError, naming the key and the fix. No path: the built-in default, for ever."""
        self._path, self._registry = path, registry
        self._mark = self._look()
        self._problem = ""
        self.changed = asyncio.Event()
        """Set when there is another configuration; cleared by whoever waits for it."""
        self.current: SchedulerConfig = default(registry) if path is None else self._read(path)

    def reload(self) -> bool:
        """Read the file if it has changed; whether there is a new configuration. A problem is told once."""
        mark = self._look()
        if self._path is None or mark == self._mark:
            return False
        self._mark = mark
        try:
            found = self._read(self._path)
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("the scheduler configuration is broken; the last good one stays in force", problem=str(error))
            return False
        self._problem = ""
        if found == self.current:
            return False
        self.current = found
        self.changed.set()
        log.info("the scheduler configuration has changed", actions=", ".join(found.actions), file=str(self._path))
        return True

    async def follow(self, period: float) -> None:
        """Look at the file every so many seconds, for ever; :attr:`current` changes with it."""
        while self._path is not None:
            await asyncio.sleep(period)
            self.reload()

    def _read(self, path: Path) -> SchedulerConfig:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"scheduler configuration {path} cannot be read: {cause}") from error
        try:
            return parse(text, self._registry)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def _look(self) -> _Mark:
        """What differs when the file is another one. Links are followed: a mounted ConfigMap is swapped by one."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
