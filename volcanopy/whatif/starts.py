"""When a job starts, as answers state it; without the engine, for readers of answers."""

from enum import StrEnum

NO_REMEDY = "no change of this job, one queue or one node lets it start"
"""The message about a job that does not start even with all changes together that are tried."""


class Start(StrEnum):
    """When a job starts."""

    NOW = "starts now"
    AFTER = "starts after"
    NEVER = "never"
    UNKNOWN = "budget ended"
