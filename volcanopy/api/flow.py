"""JobFlow and JobTemplate: jobs that run after one another (``flow.volcanopy.io/v1alpha1``).

A template is the spec of a job that is not run by itself. A flow names templates, says which waits for which, and for
what: for the end of a job, or for a sign that it is up (probes).
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import Duration, Int32, Label, Model, Rule, Time


class FlowPhase(StrEnum):
    """Where a flow stands."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"


class HttpHeader(Model):
    """A header of a probe's request."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the header."""
    value: str = Field(default="", max_length=4096)
    """Its value."""


class HttpGet(Model):
    """Pods that must answer an HTTP request with a status from 200 to 399."""

    task_name: Label
    """The task of the target's job whose pods are asked."""
    path: str = Field(default="/", max_length=2048)
    """The path that is asked for."""
    port: Int32 = Field(ge=1, le=65535)
    """The port that is asked."""
    http_header: HttpHeader | None = None
    """A header to send along."""


class TcpSocket(Model):
    """Pods that must accept a TCP connection."""

    task_name: Label
    """The task of the target's job whose pods are asked."""
    port: Int32 = Field(ge=1, le=65535)
    """The port that is connected to."""


class TaskStatus(Model):
    """Pods that must have come to a phase."""

    task_name: Label
    """The task of the target's job whose pods are looked at."""
    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    """The phase; a pod that has succeeded has also been running."""


class Probe(Model):
    """Signs that a target is up: all of them must be given, each by as many pods as its task needs."""

    http_get_list: list[HttpGet] = Field(
        default_factory=list, max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """HTTP requests that must be answered."""
    tcp_socket_list: list[TcpSocket] = Field(
        default_factory=list, max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Connections that must be accepted."""
    task_status_list: list[TaskStatus] = Field(
        default_factory=list, max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Phases that pods must have come to."""

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class FlowDependsOn(Model):
    """What a job of a flow waits for."""

    targets: list[Label] = Field(
        default_factory=list, max_length=128, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of the flow's jobs that this one waits for."""
    probe: Probe | None = None
    """What must be seen of each target; that it is completed, if nothing is given here."""


PartialJobSpec = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class Patch(Model):
    """What this job has other than its template."""

    job_spec: PartialJobSpec = Field(default_factory=dict)
    """Fields of the job's spec: objects are merged, lists of named things by name, others replaced; null takes away."""


class FlowJob(Model):
    """One job of a flow."""

    name: Label
    """Name of the job within the flow; the job itself is called <flow>-<name>."""
    template: str = Field(default="", max_length=253)
    """The JobTemplate that it is made from; the one of the same name if not given."""
    depends_on: FlowDependsOn | None = None
    """What it waits for."""
    patch: Patch | None = None
    """What it has other than its template."""
    max_retry: Int32 = Field(default=0, ge=0, le=1000, json_schema_extra={"x-volcanopy-no-default": True})
    """How often it is made anew when it has failed, before the flow counts it as failed."""

    rules = (
        Rule(
            "!has(self.dependsOn) || !has(self.dependsOn.targets) || !(self.name in self.dependsOn.targets)",
            "a job cannot wait for itself",
            ".dependsOn",
        ),
    )

    @property
    def template_name(self) -> str:
        """The JobTemplate that it is made from."""
        return self.template or self.name

    @property
    def targets(self) -> tuple[str, ...]:
        """The flow's jobs that it waits for."""
        return tuple(dict.fromkeys(self.depends_on.targets)) if self.depends_on else ()


class JobFlowSpec(Model):
    """The jobs, and which waits for which."""

    flows: list[FlowJob] = Field(
        min_length=1,
        max_length=256,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """The jobs of the flow."""
    job_retain_policy: Literal["retain", "delete"] = "retain"
    """Whether the jobs are kept or deleted once the flow has succeeded."""
    failure_policy: Literal["stop", "continue", "terminate"] = Field(
        default="stop", json_schema_extra={"x-volcanopy-no-default": True}
    )
    """When a job has failed: make no further ones (stop), go on with what does not wait for it (continue), or end the others."""

    rules = (
        Rule(
            "self.flows == oldSelf.flows",
            "the jobs of a flow that exists cannot change: make a new flow",
            ".flows",
        ),
        Rule(
            "[self.flows.map(f, f.name)].all(names, self.flows.all(f,"
            " !has(f.dependsOn) || !has(f.dependsOn.targets) || f.dependsOn.targets.all(t, t in names)))",
            "dependsOn names a job that the flow does not have",
            ".flows",
        ),
    )


class FlowState(Model):
    """Where the flow stands, and why."""

    phase: FlowPhase | None = None
    """Where the flow stands."""
    reason: str = ""
    """One word for why."""
    message: str = ""
    """One sentence for why."""
    last_transition_time: Time | None = None
    """Since when."""


class RunningHistory(Model):
    """A stretch of a job's life."""

    state: str
    """The phase that the job was in."""
    start_timestamp: Time | None = None
    """Since when."""
    end_timestamp: Time | None = None
    """Until when; not given while it lasts."""


class FlowJobStatus(Model):
    """What has become of one job of the flow."""

    name: str
    """Name of the job."""
    state: str = ""
    """The phase of the job; empty while it does not exist."""
    message: str = ""
    """Why it is there, or what it waits for."""
    start_timestamp: Time | None = None
    """When the job was made."""
    end_timestamp: Time | None = None
    """When it came to its end."""
    restart_count: Int32 = 0
    """How often the job has restarted."""
    attempt: Int32 = 0
    """How often the job has been made anew after it failed."""
    running_duration: Duration | None = None
    """How long the job ran."""
    running_histories: list[RunningHistory] = Field(default_factory=list)
    """The phases that the job went through, the latest last."""


class JobFlowStatus(Model):
    """What has become of the flow; written by its controller."""

    state: FlowState = FlowState()
    """Where the flow stands, and why."""
    pending_jobs: list[str] = Field(default_factory=list)
    """Jobs that exist and do not run yet."""
    running_jobs: list[str] = Field(default_factory=list)
    """Jobs that run, restart or are about to be complete."""
    completed_jobs: list[str] = Field(default_factory=list)
    """Jobs that are complete."""
    failed_jobs: list[str] = Field(default_factory=list)
    """Jobs that have failed for good."""
    terminated_jobs: list[str] = Field(default_factory=list)
    """Jobs that were stopped, or are being stopped."""
    waiting_jobs: list[str] = Field(default_factory=list)
    """Jobs that do not exist yet."""
    job_status_list: list[FlowJobStatus] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """Every job of the flow, in the order of the spec."""
    observed_generation: int = 0
    """The generation of the spec that this status speaks of."""


class JobFlow(Model):
    """Jobs that run after one another."""

    api_version: Literal["flow.volcanopy.io/v1alpha1"] = "flow.volcanopy.io/v1alpha1"
    kind: Literal["JobFlow"] = "JobFlow"
    metadata: ObjectMeta
    spec: JobFlowSpec
    """The jobs, and which waits for which."""
    status: JobFlowStatus = JobFlowStatus()
    """What has become of it."""

    rules = (
        Rule(
            "self.spec.flows.all(f, size(self.metadata.name) + 1 + size(f.name) <= 60)",
            "job names, <flow>-<name>, can have at most 60 characters: shorten the name of the flow or of the job",
        ),
    )


FreshJobSpec = Annotated[BatchJobSpec, Field(json_schema_extra={"x-volcanopy-mutable": True})]
"""The spec of a job that is yet to be made: it may change in every part."""


class JobTemplateStatus(Model):
    """What uses the template; written by the flow controller."""

    job_depends_on_list: list[str] = Field(default_factory=list)
    """Names of the jobs that were made from it."""


class JobTemplate(Model):
    """The spec of jobs that flows make."""

    api_version: Literal["flow.volcanopy.io/v1alpha1"] = "flow.volcanopy.io/v1alpha1"
    kind: Literal["JobTemplate"] = "JobTemplate"
    metadata: ObjectMeta
    spec: FreshJobSpec
    """What a job that is made from it runs."""
    status: JobTemplateStatus = JobTemplateStatus()
    """What uses it."""
