"""volcanopy: a batch system for Kubernetes. ``from volcanopy import Job`` submits jobs from a program."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from volcanopy import version

if TYPE_CHECKING:
    from volcanopy.sdk.jobs import AsyncJob as AsyncJob
    from volcanopy.sdk.jobs import Job as Job
    from volcanopy.sdk.jobs import JobError as JobError
    from volcanopy.sdk.official_client import client as client

__version__ = version.VERSION
_SDK = {"AsyncJob": "jobs", "Job": "jobs", "JobError": "jobs", "client": "official_client"}


def __getattr__(name: str) -> Any:
    """Import the SDK when it is used first: most processes that import the package do not need it."""
    if name in _SDK:
        return getattr(import_module(f"volcanopy.sdk.{_SDK[name]}"), name)
    raise AttributeError(f"module 'volcanopy' has no attribute {name!r}")
