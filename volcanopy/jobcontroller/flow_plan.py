"""What exists of a flow, and what is to be done for it, as data.

As with jobs, a decision is in the status before anything is done about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plan import RecordEvent


class Knock(NamedTuple):
    """A question to one pod: does it answer there? An HTTP request if there is a path, else a TCP connection."""

    pod: str
    ip: str
    port: int
    path: str = ""
    header: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        return f"GET {self.path} on port {self.port}" if self.path else f"port {self.port}"


@dataclass(frozen=True)
class FlowObserved:
    """What exists of a flow.

    ``jobs`` are the jobs that it controls, by name; ``pods`` theirs, by job; ``answers`` what is known of the questions
    that earlier plans asked; ``trouble`` what the API server last said against carrying out a plan, and says still.
    """

    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    jobs: Mapping[str, BatchJob] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    answers: Mapping[Knock, bool] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class UpdateFlowStatus:
    """Replace the flow's status; refused if the flow has changed since it was looked at."""

    status: Json

    def __str__(self) -> str:
        state = self.status.get("state", {})
        return f"status {state.get('phase')}: {state.get('message', '')}"


@dataclass(frozen=True)
class CreateJob:
    """Make a job; that it exists already is fine, if it is the owner's."""

    manifest: Json

    def __str__(self) -> str:
        return f"create job {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class RemoveJob:
    """Delete a job and all that belongs to it, if it is still the one with this uid."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete job {self.name}"


@dataclass(frozen=True)
class CommandJob:
    """Leave a Command for a job; one that says the same and is there already is enough."""

    name: str
    uid: str
    action: Literal["TerminateJob"]
    message: str

    def __str__(self) -> str:
        return f"{self.action} {self.name}: {self.message}"


FlowEffect = UpdateFlowStatus | CreateJob | RemoveJob | CommandJob | RecordEvent


@dataclass(frozen=True)
class FlowPlan:
    """Effects in order, the questions that are to be asked of pods, and when to look again if nothing changes before."""

    effects: tuple[FlowEffect, ...] = ()
    knocks: tuple[Knock, ...] = ()
    again: datetime | None = None

    def __str__(self) -> str:
        return "\n".join([*map(str, self.effects), *(f"ask {one.pod}: {one}" for one in self.knocks)])
