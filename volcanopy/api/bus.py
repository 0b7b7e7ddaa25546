"""Command: a wish that a person or a program leaves for a controller (``bus.volcanopy.io/v1alpha1``)."""

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
    """A wish for a job or a queue; its controller carries it out once and deletes it."""

    api_version: Literal["bus.volcanopy.io/v1alpha1"] = "bus.volcanopy.io/v1alpha1"
    kind: Literal["Command"] = "Command"
    metadata: ObjectMeta
    action: str = Field(json_schema_extra={"enum": list(COMMAND_ACTIONS)})
    """What to do."""
    target: OwnerReference
    """The job or queue to do it with."""
    reason: str = Field(default="", max_length=1024)
    """One word for why."""
    message: str = Field(default="", max_length=32768)
    """One sentence for why."""
