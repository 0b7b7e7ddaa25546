"""The admission configuration file, read again when it changes; a broken one changes nothing."""

import logging
import os
from pathlib import Path

from volcanopy.admission.policy import AdmissionPolicy, PolicyError, parse

log = logging.getLogger(__name__)


class PolicyFile:
    """The policy in force: ``current`` is the last good one."""

    def __init__(self, path: Path | None, fixed: AdmissionPolicy | None = None) -> None:
        """Reads the file; raises PolicyError, naming the key and the fix. Without a path ``fixed`` is in force for ever."""
        self._path = path
        self._mark = self._look()
        self._problem = ""
        self.current = (fixed or AdmissionPolicy()) if path is None else self._read(path)

    def reload(self) -> bool:
        """Read the file if it has changed; whether there is a new policy. A problem is told once."""
        mark = self._look()
        if self._path is None or mark == self._mark:
            return False
        self._mark = mark
        try:
            found = self._read(self._path)
        except PolicyError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("the admission configuration is broken; the last good one stays in force: %s", error)
            return False
        self._problem = ""
        changed, self.current = found != self.current, found
        if changed:
            log.info("the admission configuration %s has changed", self._path)
        return changed

    def _read(self, path: Path) -> AdmissionPolicy:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise PolicyError(f"admission configuration {path} cannot be read: {cause}") from error
        try:
            return parse(text)
        except PolicyError as error:
            raise PolicyError(f"{path}: {error}") from error

    def _look(self) -> tuple[int, int, int] | None:
        """What differs when the file is another one. Links are followed: a mounted ConfigMap is swapped by one."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
