"""Structured loggers that import structlog with the first message: commands that log nothing start without it."""

import sys
from typing import Any


class Logger:
    """A structlog logger by name. A process that has not configured structlog logs warnings and errors to stderr."""

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail."""
        self._structlog().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a normal event."""
        self._structlog().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log an event that an operator should know of."""
        self._structlog().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Log an error."""
        self._structlog().error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the traceback of the exception that is handled."""
        self._structlog().exception(event, **fields)

    def _structlog(self) -> Any:
        import structlog  # noqa: PLC0415

        if structlog.is_configured():
            return structlog.get_logger(self._name)
        from volcanopy.kube.client.printable import printable_fields  # noqa: PLC0415

        warnings_only = structlog.make_filtering_bound_logger("warning")
        processors = [printable_fields, *structlog.get_config()["processors"]]
        return structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors, wrapper_class=warnings_only)
