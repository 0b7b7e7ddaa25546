"""Capture the log output of a process within a ``with`` block."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from volcanopy.cli import logs


class Terminal(io.StringIO):
    """Text that counts as shown on a terminal."""

    def isatty(self) -> bool:
        return True


class CapturedLogs:
    """The lines so far."""

    def __init__(self, stream: io.StringIO) -> None:
        self.stream = stream

    @property
    def text(self) -> str:
        """All of it."""
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Each line, which must be JSON."""
        return [json.loads(line) for line in self.text.splitlines()]


@contextmanager
def logged(*, verbose: bool = False, stream: io.StringIO | None = None) -> Iterator[CapturedLogs]:
    """Log as a process does, into memory; as it was before afterwards."""
    root, stream = logging.getLogger(), stream or io.StringIO()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    try:
        logs.configure(verbose=verbose, stream=stream)
        yield CapturedLogs(stream)
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers = handlers
        root.setLevel(level)
        logging.captureWarnings(capture=False)
        structlog.configure(**before)
