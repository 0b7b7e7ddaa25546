"""volcanopy: a batch system for Kubernetes. ``from volcanopy import Job`` submits jobs from a program."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from volcanopy import version

if TYPE_CHECKING:
    from volcanopy.client.official_client import api_client as api_client
    from volcanopy.client.sdk import AsyncJob as AsyncJob
    from volcanopy.client.sdk import Job as Job
    from volcanopy.client.sdk import JobError as JobError

__version__ = version.VERSION
_SDK = {"AsyncJob": "sdk", "Job": "sdk", "JobError": "sdk", "api_client": "official_client"}


def __getattr__(name: str) -> Any:
    """Import the SDK when it is used first: most processes that import the package do not need it."""
    if name in _SDK:
        return getattr(import_module(f"volcanopy.client.{_SDK[name]}"), name)
    raise AttributeError(f"module 'volcanopy' has no attribute {name!r}")
