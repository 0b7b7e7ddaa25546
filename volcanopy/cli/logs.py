"""What a process says of itself: readable on a terminal, JSON where a machine collects it.

Everything goes the same way, the standard library's loggers and those of kopf, aiohttp and asyncio included. What belongs
to a cycle, a look at an object or a review names it (``session``, ``object``, ``review``), however deep down it is said.
Secrets that find their way into a line are blanked, and of many lines of a kind only the first are written.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import structlog

BURST = 20
"""Lines of a kind that are written within one window; the rest is told as a number when it is over."""
WINDOW = 10.0
"""Seconds."""
_BLANK = "***"
_SECRET_NAMES = re.compile(r"token|passw|secret|authorization|credential|private|id_rsa|cookie", re.IGNORECASE)
_SECRET_TEXTS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"  # keys as they are
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/=]+"  # and as a Secret has them
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]+|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}"
    r"|eyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",  # tokens of service accounts
    re.DOTALL,
)


def configure(*, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Send all logging to the stream (standard error) in one form. ``verbose``: decisions too, and every line of all."""
    stream = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: structlog.typing.Processor
    if stream.isatty():
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream) if verbose else Calm(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                without_secrets,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.captureWarnings(capture=True)
    for noisy in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def without_secrets(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Blank what is named like a secret, and what looks like one. Nothing is meant to log such; this is the second lock."""
    return {key: _blank(key, value) for key, value in event.items()}


def _blank(name: str, value: Any) -> Any:
    if name != "event" and _SECRET_NAMES.search(name):
        return _BLANK
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(_BLANK, value)
    if isinstance(value, Mapping):
        return {key: _blank(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_blank("", one) for one in value]
    return value if isinstance(value, int | float | bool | None) else _SECRET_TEXTS.sub(_BLANK, str(value))


class _Kind:
    """Lines that differ only in what they are about: when their window began, and how many there were in it."""

    __slots__ = ("count", "last", "since")

    def __init__(self, since: float, last: logging.LogRecord) -> None:
        self.since, self.last, self.count = since, last, 0


class Calm(logging.StreamHandler[TextIO]):
    """Writes the first lines of a kind, and of the others how many there were: what happens to ten thousand pods at once
    is one piece of news. A kind is a logger, a level and a text before anything is put into it.
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
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it."""
        now = self._clock()
        self._sum_up(now - self._window)
        kind = self._kinds.setdefault((record.name, record.levelno, _text(record)), _Kind(now, record))
        kind.count, kind.last = kind.count + 1, record
        if kind.count <= self._burst:
            super().emit(record)

    def close(self) -> None:
        """Tell what was left out, and end."""
        self._sum_up(float("inf"))
        super().close()

    def _sum_up(self, begun_by: float) -> None:
        # They stand in the order in which their windows began.
        while self._kinds:
            name, kind = next(iter(self._kinds.items()))
            if kind.since > begun_by:
                return
            del self._kinds[name]
            if kind.count > self._burst:
                super().emit(_summary(kind, kind.count - self._burst))


def _text(record: logging.LogRecord) -> str:
    """What the line says before anything is put into it."""
    return str(record.msg.get("event", "")) if isinstance(record.msg, dict) else str(record.msg)


def _summary(kind: _Kind, more: int) -> logging.LogRecord:
    last = kind.last
    said = "%d more lines like this one were left out: %s"
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, said, (more, _text(last)), None)
