"""Full model of Command (``bus.volcanopy.io/v1alpha1``)."""

from typing import Literal

from pydantic import Field

from volcanopy.api.meta import ObjectMeta, OwnerReference
from volcanopy.api.model import Model

COMMAND_ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    "OpenQueue",
    "CloseQueue",
)


class Command(Model):
    """A command for a job or queue. The controller executes it once and deletes it."""

    api_version: Literal["bus.volcanopy.io/v1alpha1"] = "bus.volcanopy.io/v1alpha1"
    kind: Literal["Command"] = "Command"
    metadata: ObjectMeta
    action: str = Field(json_schema_extra={"enum": list(COMMAND_ACTIONS)})
    """Action to execute."""
    target: OwnerReference
    """Job or queue that the action applies to."""
    reason: str = Field(default="", max_length=1024)
    """Machine-readable reason."""
    message: str = Field(default="", max_length=32768)
    """Human-readable message."""
