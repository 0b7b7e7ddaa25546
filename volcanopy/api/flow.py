"""Full models of JobFlow and JobTemplate (``flow.volcanopy.io/v1alpha1``).

A JobTemplate is the specification of a job. A JobFlow creates jobs from templates in the order of their dependencies: after
another job has completed, or after its pods have passed probes.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, WithJsonSchema

from volcanopy.api.alternatives import merged
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.model import (
    ATOMIC,
    NO_DEFAULT,
    Duration,
    Int32,
    Json,
    Label,
    Message,
    Model,
    ObjectMeta,
    Rule,
    Time,
    keyed,
)


class FlowPhase(StrEnum):
    """Phase of a flow."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"


class HttpHeader(Model):
    """HTTP header of a probe."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the header."""
    value: str = Field(default="", max_length=4096)
    """Value of the header."""


class HttpGet(Model):
    """HTTP probe. Pods pass it by responding with a status from 200 to 399."""

    task_name: Label
    """Task of the target job whose pods are probed."""
    path: str = Field(default="/", max_length=2048)
    """Path of the request. Defaults to /."""
    port: Int32 = Field(ge=1, le=65535)
    """Port of the request."""
    http_header: HttpHeader | None = None
    """Header of the request."""


class TcpSocket(Model):
    """TCP probe. Pods pass it by accepting a connection."""

    task_name: Label
    """Task of the target job whose pods are probed."""
    port: Int32 = Field(ge=1, le=65535)
    """Port to connect to."""


class TaskStatus(Model):
    """Phase that pods must have reached."""

    task_name: Label
    """Task of the target job whose pods are checked."""
    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    """Required phase. A succeeded pod also counts as running."""


class Probe(Model):
    """Probes of a target. Each must pass on the minimum number of pods of its task."""

    http_get_list: list[HttpGet] = Field(default_factory=list, max_length=32, json_schema_extra=ATOMIC)
    """HTTP probes."""
    tcp_socket_list: list[TcpSocket] = Field(default_factory=list, max_length=32, json_schema_extra=ATOMIC)
    """TCP probes."""
    task_status_list: list[TaskStatus] = Field(default_factory=list, max_length=32, json_schema_extra=ATOMIC)
    """Phases that pods must have reached."""

    @property
    def empty(self) -> bool:
        """Whether there are no probes."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class FlowDependsOn(Model):
    """What a job of a flow waits for."""

    targets: list[Label] = Field(default_factory=list, max_length=128, json_schema_extra=ATOMIC)
    """Names of the jobs of the flow that the job waits for."""
    probe: Probe | None = None
    """Probes that each target must pass. If not given, targets must be completed."""


PartialJobSpec = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class Patch(Model):
    """Changes to a job template."""

    job_spec: PartialJobSpec = Field(default_factory=dict)
    """Fields of the job spec. Objects are merged, lists of named items are merged by name, other values are replaced; null
    removes a field."""


class FlowJob(Model):
    """A job of a flow."""

    name: Label
    """Name of the job within the flow. The job is created as <flow>-<name>."""
    template: str = Field(default="", max_length=253)
    """Name of the JobTemplate. Defaults to the name of the job."""
    depends_on: FlowDependsOn | None = None
    """Dependencies of the job."""
    patch: Patch | None = None
    """Changes to the JobTemplate."""
    max_retry: Int32 = Field(default=0, ge=0, le=1000, json_schema_extra=NO_DEFAULT)
    """Maximum number of times that the job is created again after it failed. Defaults to 0."""

    rules = (
        Rule(
            "!has(self.dependsOn) || !has(self.dependsOn.targets) || !(self.name in self.dependsOn.targets)",
            "must not contain the job itself",
            ".dependsOn",
        ),
    )

    @property
    def template_name(self) -> str:
        """Name of the JobTemplate."""
        return self.template or self.name

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the jobs that the job waits for."""
        return tuple(dict.fromkeys(self.depends_on.targets)) if self.depends_on else ()


class JobFlowSpec(Model):
    """Specification of a flow."""

    may_repeat: ClassVar[bool] = False
    """Whether several entries may have the same name. The first one counts."""

    flows: list[FlowJob] = Field(min_length=1, max_length=256, json_schema_extra=keyed("name"))
    """The jobs of the flow."""
    job_retain_policy: Literal["retain", "delete"] = "retain"
    """Whether the jobs are retained or deleted when the flow has succeeded. Defaults to retain."""
    failure_policy: Literal["stop", "continue", "terminate"] = Field(default="stop", json_schema_extra=NO_DEFAULT)
    """Policy after a job has failed: stop (no further jobs are created), continue (jobs that do not depend on it are created)
    or terminate (running jobs are terminated). Defaults to stop."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.flows == oldSelf.flows", "field is immutable: create a new flow", ".flows"),
        Rule(
            "[self.flows.map(f, f.name)].all(names, self.flows.all(f,"
            " !has(f.dependsOn) || !has(f.dependsOn.targets) || f.dependsOn.targets.all(t, t in names)))",
            "dependsOn must contain names of jobs of the flow",
            ".flows",
        ),
    )

    @property
    def jobs(self) -> list[FlowJob]:
        """The jobs of the flow: the first entry of each name. Volcano's flows may contain a name twice."""
        first: dict[str, FlowJob] = {}
        for job in self.flows:
            first.setdefault(job.name, job)
        return list(first.values())


class FlowState(Model):
    """Phase of a flow, with the reason for it."""

    phase: FlowPhase | None = None
    """Phase of the flow."""
    reason: str = ""
    """Machine-readable reason of the phase."""
    message: Message = ""
    """Human-readable message about the phase."""
    last_transition_time: Time | None = None
    """Time of the last transition to this phase."""


class RunningHistory(Model):
    """Period that a job spent in one phase."""

    state: str
    """Phase of the job."""
    start_timestamp: Time | None = None
    """Start time."""
    end_timestamp: Time | None = None
    """End time. Not set for the current phase."""


class FlowJobStatus(Model):
    """Observed status of one job of a flow."""

    name: str
    """Name of the job."""
    state: str = ""
    """Phase of the job. Empty if the job does not exist."""
    message: Message = ""
    """Human-readable message about the phase, or about what the job waits for."""
    start_timestamp: Time | None = None
    """Creation time of the job."""
    end_timestamp: Time | None = None
    """Time at which the job finished."""
    restart_count: Int32 = 0
    """Number of restarts of the job."""
    attempt: Int32 = 0
    """Number of times that the job was created again after it failed."""
    running_duration: Duration | None = None
    """Total running time of the job."""
    running_histories: list[RunningHistory] = Field(default_factory=list)
    """Phases of the job in chronological order."""


class JobFlowStatus(Model):
    """Observed status of a flow, set by the flow controller."""

    state: FlowState = Field(default_factory=FlowState)
    """Phase of the flow, with the reason for it."""
    pending_jobs: list[str] = Field(default_factory=list)
    """Names of pending jobs."""
    running_jobs: list[str] = Field(default_factory=list)
    """Names of running, restarting and completing jobs."""
    completed_jobs: list[str] = Field(default_factory=list)
    """Names of completed jobs."""
    failed_jobs: list[str] = Field(default_factory=list)
    """Names of failed jobs."""
    terminated_jobs: list[str] = Field(default_factory=list)
    """Names of aborted and terminated jobs."""
    waiting_jobs: list[str] = Field(default_factory=list)
    """Names of jobs that are not created yet."""
    job_status_list: list[FlowJobStatus] = Field(default_factory=list, json_schema_extra=keyed("name"))
    """Status of each job, in the order of the spec."""
    observed_generation: int = 0
    """Generation of the spec that the status was computed from."""


class JobFlow(Model):
    """Jobs that run in the order of their dependencies."""

    api_version: Literal["flow.volcanopy.io/v1alpha1"] = "flow.volcanopy.io/v1alpha1"
    kind: Literal["JobFlow"] = "JobFlow"
    metadata: ObjectMeta
    spec: JobFlowSpec
    """Specification of the flow."""
    status: JobFlowStatus = Field(default_factory=JobFlowStatus)
    """Observed status of the flow."""

    rules = (
        Rule(
            "!has(self.spec.flows) || self.spec.flows.all(f, size(self.metadata.name) + 1 + size(f.name) <= 60)",
            "job names (<flow>-<name>) must have at most 60 characters: shorten the name of the flow or job",
        ),
    )


class JobTemplateStatus(Model):
    """Observed status of a JobTemplate, set by the flow controller."""

    job_depends_on_list: list[str] = Field(default_factory=list)
    """Names of the jobs created from the template, at most 500."""


class JobTemplate(Model):
    """Specification of the jobs that flows create."""

    api_version: Literal["flow.volcanopy.io/v1alpha1"] = "flow.volcanopy.io/v1alpha1"
    kind: Literal["JobTemplate"] = "JobTemplate"
    metadata: ObjectMeta
    spec: BatchJobSpec
    """Specification of the jobs created from the template."""
    status: JobTemplateStatus = Field(default_factory=JobTemplateStatus)
    """Observed status of the template."""


def job_spec(step: FlowJob, template: JobTemplate) -> Json:
    """Return the specification of a job of a flow: that of its template with the patch, which may make it invalid."""
    spec = template.spec.write_given()
    return spec if step.patch is None else cast("Json", merged(spec, step.patch.job_spec))
