"""volcanopy: a batch system for Kubernetes. ``from volcanopy import Job`` submits jobs from a program."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from volcanopy import version

if TYPE_CHECKING:
    from volcanopy.client.functions.checkpoint import Checkpoint as Checkpoint
    from volcanopy.client.functions.executor import Executor as Executor
    from volcanopy.client.functions.function_job import FunctionJob as FunctionJob
    from volcanopy.client.official_client import api_client as api_client
    from volcanopy.client.sdk.async_job import AsyncJob as AsyncJob
    from volcanopy.client.sdk.connected import AdmissionWarning as AdmissionWarning
    from volcanopy.client.sdk.connected import JobError as JobError
    from volcanopy.client.sdk.job import Job as Job
    from volcanopy.client.sdk.tasks import Task as Task

__version__ = version.VERSION
_SDK = {
    "AdmissionWarning": "sdk.connected",
    "AsyncJob": "sdk.async_job",
    "Checkpoint": "functions.checkpoint",
    "Executor": "functions.executor",
    "FunctionJob": "functions.function_job",
    "Job": "sdk.job",
    "JobError": "sdk.connected",
    "Task": "sdk.tasks",
    "api_client": "official_client",
}


def __getattr__(name: str) -> Any:
    """Import the SDK when it is used first: most processes that import the package do not need it."""
    if name in _SDK:
        return getattr(import_module(f"volcanopy.client.{_SDK[name]}"), name)
    raise AttributeError(f"module 'volcanopy' has no attribute {name!r}")
