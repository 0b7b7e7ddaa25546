"""A configuration file that is read again when it changes; an invalid one is ignored."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from volcanopy.api.config_file import ConfigError
from volcanopy.kube.metrics import registry

log = structlog.get_logger(__name__)

T = TypeVar("T")

_Mark = tuple[int, int, int] | None


class RereadFile(Generic[T]):
    """A configuration file; ``current`` is the last valid content.

    ``what`` names the file in messages, such as "scheduler configuration". ``parse`` raises ConfigError, and so does an
    unreadable file. Without a path ``built_in`` is always in force.
    """

    def __init__(self, path: Path | None, what: str, parse: Callable[[str], T], built_in: Callable[[], T]) -> None:
        self.path = path
        self._what, self._parse = what, parse
        self._mark = self._look()
        self._problem = ""
        self._invalid = registry.INVALID_CONFIGURATION.labels(what.removesuffix(" configuration"))
        self._invalid.set(0)
        self.current = built_in() if path is None else self._read(path)

    def reload(self) -> bool:
        """Read the file if it has changed; whether the content has changed. A problem is logged once."""
        mark = self._look()
        if self.path is None or mark == self._mark:
            return False
        self._mark = mark
        try:
            content = self._read(self.path)
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error(f"invalid {self._what}, the last valid one stays in force", problem=self._problem)
            self._invalid.set(1)
            return False
        self._problem = ""
        self._invalid.set(0)
        if content == self.current:
            return False
        self.current = content
        self.taken()
        return True

    def taken(self) -> None:
        """Handle a change of :attr:`current`."""
        log.info(f"{self._what} changed", file=str(self.path))

    def _read(self, path: Path) -> T:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"{self._what} {path} cannot be read: {cause}") from error
        try:
            return self._parse(text)
        except ConfigError as error:
            raise ConfigError(f"{self._what} {path}: {error}") from error

    def _look(self) -> _Mark:
        """Return what changes with the file. Links are followed: a mounted ConfigMap is replaced by one."""
        if self.path is None:
            return None
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size
