"""Observed objects of a flow, and the effects of its reconciliation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Json
from volcanopy.jobcontroller.plan import RecordEvent


class PodProbe(NamedTuple):
    """A probe of one pod: an HTTP request if there is a path, otherwise a TCP connection."""

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

    ``jobs`` are the jobs that it controls, by name; ``pods`` their pods, by job; ``answers`` the results of the probes of
    earlier plans; ``trouble`` the last error of the API server, empty after success.
    """

    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    jobs: Mapping[str, BatchJob] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    answers: Mapping[PodProbe, bool] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class UpdateFlowStatus:
    """Replace the flow's status; rejected if the flow has changed since it was read."""

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
    """Create a Command for a job, unless an equal one exists."""

    name: str
    uid: str
    action: Literal["TerminateJob"]
    message: str

    def __str__(self) -> str:
        return f"{self.action} {self.name}: {self.message}"


FlowEffect = UpdateFlowStatus | CreateJob | RemoveJob | CommandJob | RecordEvent


@dataclass(frozen=True)
class FlowPlan:
    """Effects in order, probes to run, and the time of the next reconciliation if nothing changes before."""

    effects: tuple[FlowEffect, ...] = ()
    pod_probes: tuple[PodProbe, ...] = ()
    again: datetime | None = None

    def __str__(self) -> str:
        return "\n".join(
            [*map(str, self.effects), *(f"probe {pod_probe.pod}: {pod_probe}" for pod_probe in self.pod_probes)]
        )
