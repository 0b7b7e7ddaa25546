"""Observed objects of a flow, and the effects of its reconciliation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod
from volcanopy.api.flow import JobTemplate
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, Plan, RecordEvent, UpdateStatus


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
class CommandJob:
    """Create a Command for a job, unless an equal one exists."""

    name: str
    uid: str
    action: Literal["TerminateJob"]
    message: str

    def __str__(self) -> str:
        return f"{self.action} {self.name}: {self.message}"


FlowEffect = UpdateStatus | CreateJob | DeleteJob | CommandJob | RecordEvent


@dataclass(frozen=True)
class FlowPlan(Plan[FlowEffect]):
    """A plan with the probes of pods to run."""

    pod_probes: tuple[PodProbe, ...] = ()

    def __str__(self) -> str:
        probes = (f"probe {pod_probe.pod}: {pod_probe}" for pod_probe in self.pod_probes)
        return "\n".join([*map(str, self.effects), *probes])
