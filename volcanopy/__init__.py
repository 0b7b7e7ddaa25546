"""volcanopy: a batch system for Kubernetes. ``from volcanopy import Job`` submits jobs from a program."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volcanopy.sdk.jobs import AsyncJob as AsyncJob
    from volcanopy.sdk.jobs import Job as Job
    from volcanopy.sdk.jobs import JobError as JobError

__version__ = "0.1.0"
_SDK = frozenset({"AsyncJob", "Job", "JobError"})


def __getattr__(name: str) -> Any:
    """Import the SDK when it is used first: most processes that import the package do not need it."""
    if name in _SDK:
        from volcanopy.sdk import jobs  # noqa: PLC0415

        return getattr(jobs, name)
    raise AttributeError(f"module 'volcanopy' has no attribute {name!r}")
