"""Durations as arguments of plugins and actions."""

from datetime import timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from volcanopy.scheduler.model import pod_fields


def duration_or(*names: str) -> AfterValidator:
    """Return the check of an argument that is a duration, 0s included, or one of these names."""

    def check(text: str) -> str:
        if text not in ("0s", *names) and pod_fields.duration(text) is None:
            raise ValueError("must be a duration such as 10m or 1h30m")
        return text

    return AfterValidator(check)


def above_zero(example: str, *names: str) -> AfterValidator:
    """Return the check of an argument that is a duration above zero such as this one, or one of these names."""

    def check(value: str | timedelta) -> str | timedelta:
        duration = pod_fields.duration(value) if isinstance(value, str) else value
        if value not in names and (duration is None or duration <= timedelta(0)):
            raise ValueError(f"must be a duration above zero such as {example}")
        return value

    return AfterValidator(check)


Duration = Annotated[str, duration_or()]
"""An argument such as 10m, 1h30m or 0s."""


@lru_cache(maxsize=256)
def seconds(text: str) -> float:
    """Return a duration in seconds; 0 for one that is not above zero."""
    duration = pod_fields.duration(text)
    return 0.0 if duration is None else duration.total_seconds()
