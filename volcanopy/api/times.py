"""Times in the notation of Kubernetes."""

from datetime import UTC, datetime


def format_time(value: datetime) -> str:
    """Return a time in UTC, in whole seconds."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
