"""Configuration of logging: readable lines on a terminal, JSON otherwise.

All loggers are included, also those of kopf, aiohttp and asyncio. Lines of a scheduling cycle, a reconciliation or a
review have its id as a field (``session``, ``object``, ``review``). Secrets are masked, and of many equal lines only the
first are written.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import structlog

from volcanopy.kube.client.printable import printable_fields

BURST = 20
"""Maximum number of equal lines in a window; the number of the others is logged at its end."""
WINDOW = 10.0
"""Seconds."""
_MASK = "***"
_SECRET_NAMES = re.compile(r"token|passw|secret|authorization|credential|private|id_rsa|cookie", re.IGNORECASE)
_SECRET_TEXTS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"  # keys as they are
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/=]+"  # and as a Secret has them
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]+|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}"
    r"|eyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",  # tokens of service accounts
    re.DOTALL,
)


def configure(*, verbose: bool = False, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Write all logging to the stream (standard error); with ``verbose`` at level debug and without a rate limit."""
    stream = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering: list[structlog.typing.Processor]
    if stream.isatty():
        console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        rendering = [printable_fields, console]
    else:
        rendering = [structlog.processors.JSONRenderer(default=str)]  # escapes control characters itself
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream) if verbose else RateLimitedHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                without_secrets,
                *rendering,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbose else level)
    logging.captureWarnings(capture=True)
    for noisy in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def without_secrets(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Mask fields with names of secrets, and texts that look like secrets. No code should log them in the first place."""
    return {key: _mask(key, value) for key, value in event.items()}


def _mask(name: str, value: Any) -> Any:
    if name != "event" and _SECRET_NAMES.search(name):
        return _MASK
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(_MASK, value)
    if isinstance(value, Mapping):
        return {key: _mask(str(key), field) for key, field in value.items()}
    if isinstance(value, list | tuple):
        return [_mask("", item) for item in value]
    return value if isinstance(value, int | float | bool | None) else _SECRET_TEXTS.sub(_MASK, str(value))


class _Window:
    """Equal lines of a window: its start, their number, and the last."""

    __slots__ = ("count", "last", "since")

    def __init__(self, since: float, last: logging.LogRecord) -> None:
        self.since, self.last, self.count = since, last, 0


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes the first of many equal lines and the number of the others.

    Lines are equal if logger, level and event are, whatever their fields.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        burst: int = BURST,
        window: float = WINDOW,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._burst, self._window, self._clock = burst, window, clock
        self._windows: dict[tuple[str, int, str], _Window] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it."""
        now = self._clock()
        self._sum_up(now - self._window)
        window = self._windows.setdefault((record.name, record.levelno, _text(record)), _Window(now, record))
        window.count, window.last = window.count + 1, record
        if window.count <= self._burst:
            super().emit(record)

    def close(self) -> None:
        """Write the numbers of the lines that were left out, and close."""
        self._sum_up(float("inf"))
        super().close()

    def _sum_up(self, begun_by: float) -> None:
        # Windows are in the order of their start.
        while self._windows:
            name, window = next(iter(self._windows.items()))
            if window.since > begun_by:
                return
            del self._windows[name]
            if window.count > self._burst:
                super().emit(_summary(window, window.count - self._burst))


def _text(record: logging.LogRecord) -> str:
    """Return the event of a line, without its fields."""
    return str(record.msg.get("event", "")) if isinstance(record.msg, dict) else str(record.msg)


def _summary(window: _Window, more: int) -> logging.LogRecord:
    last = window.last
    text = "%d more equal lines left out: %s"
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, (more, _text(last)), None)
