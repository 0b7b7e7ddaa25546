"""The models bound to Volcano's API groups: Job, CronJob, PodGroup, Queue and others under ``*.volcano.sh``.

They are the models of volcanopy under other names, with the fields that only Volcano has and the form of job conditions that
its clients read. See :mod:`volcanopy.api.bindings`.
"""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model

from volcanopy.api.batch import BatchJob, BatchJobSpec, BatchJobStatus, TaskCounts, TaskSpec
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.cron import (
    CronBatchJob,
    CronBatchJobSpec,
    CronBatchJobStatus,
    JobReference,
    JobTemplateSpec,
    TemplateMeta,
)
from volcanopy.api.flow import FlowJob, JobFlow, JobFlowSpec, JobFlowStatus, JobTemplate
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import ATOMIC, Condition, Int32, Int64, Json, Model, Quantity, ResourceList, Rule
from volcanopy.api.scheduling import PodGroup, Queue, QueueSpec, QueueStatus
from volcanopy.api.times import format_time
from volcanopy.api.topology import HyperNode, HyperNodeStatus, NumaTopology

M = TypeVar("M", bound=Model)

_OF_NO_PHASE = frozenset({"DeadlineApproaching", "NodeNotReady"})


def _from_volcano(value: Any) -> Any:
    """Return conditions of the form ``{status: Running, lastTransitionTime}`` as those of the model."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) and "type" not in entry for entry in value):
        return value
    phases = [entry.get("status") for entry in value if entry.get("status") not in _OF_NO_PHASE]
    true = {*_OF_NO_PHASE, *phases[-1:]}
    latest = {entry.get("status"): entry for entry in value}  # Volcano appends one for each transition
    return [{**entry, "type": phase, "status": "True" if phase in true else "False"} for phase, entry in latest.items()]


def _to_volcano(conditions: list[Condition]) -> list[Json]:
    ordered = sorted(conditions, key=lambda condition: condition.status == "True")
    return [
        {"status": condition.type}
        | ({"lastTransitionTime": format_time(time)} if (time := condition.last_transition_time) else {})
        for condition in ordered
    ]


_JOB_CONDITION: Json = {
    "type": "object",
    "description": "Phase that the job has been in.",
    "required": ["status"],
    "properties": {
        "status": {"type": "string", "description": "The phase."},
        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "Time of the transition to it."},
    },
}
JobConditions = Annotated[
    list[Condition],
    BeforeValidator(_from_volcano),
    PlainSerializer(_to_volcano, when_used="json"),
    WithJsonSchema({"type": "array", "items": _JOB_CONDITION, **ATOMIC}),
]


class Task(TaskSpec):
    """A task of a job: a number of pods with the same template."""

    replicas: Int32 = Field(default=0, ge=0, le=1_000_000)
    """Number of pods. Defaults to 0, which Volcano's clients omit."""


class JobSpec(BatchJobSpec):
    """Specification of a job."""

    tasks: list[Task] = Field(  # type: ignore[assignment]
        min_length=1, max_length=128, json_schema_extra=ATOMIC
    )
    """Tasks of the job. As in Volcano, server-side apply replaces the list as a whole: tasks may have no names yet."""
    scheduler_name: str = Field(default=VOLCANO.scheduler_name, max_length=63)
    """Name of the scheduler of pods whose template has none. Defaults to volcano."""


class JobStatus(BatchJobStatus):
    """Observed status of a job, set by the job controller."""

    conditions: JobConditions = Field(default_factory=list)
    """Phases that the job has been in, in the order of their last transitions."""


class CronTemplateMeta(TemplateMeta):
    """Labels and annotations of the jobs; the other fields have no effect."""

    name: str = ""
    """Without effect: jobs are named after the cron job."""
    namespace: str = ""
    """Without effect: jobs are created in the namespace of the cron job."""
    finalizers: list[str] = Field(default_factory=list)
    """Without effect."""


class CronTemplateSpec(JobTemplateSpec):
    """Template of the jobs of a cron job."""

    metadata: CronTemplateMeta | None = None
    """Labels and annotations of the jobs."""
    spec: JobSpec
    """Specification of the jobs."""


class CronJobSpec(CronBatchJobSpec):
    """Specification of a cron job."""

    job_template: CronTemplateSpec
    """Template of the jobs."""


class CronReference(JobReference):
    """Reference to a job of a cron job. Only name and uid are written."""

    api_version: str = ""
    """API group and version of the job."""
    kind: str = ""
    """Kind of the job."""
    namespace: str = ""
    """Namespace of the job."""
    resource_version: str = ""
    """Version of the job."""
    field_path: str = ""
    """Without effect."""


class CronJobStatus(CronBatchJobStatus):
    """Observed status of a cron job, set by the cron controller."""

    active: list[CronReference] = Field(default_factory=list, json_schema_extra=ATOMIC)  # type: ignore[assignment]
    """Jobs that are not finished."""


class VolcanoFlowSpec(JobFlowSpec):
    """Specification of a flow. As in Volcano it may be empty, be changed, and contain a name twice: the first entry counts."""

    may_repeat: ClassVar[bool] = True

    flows: list[FlowJob] = Field(default_factory=list, max_length=256, json_schema_extra=ATOMIC)
    """The jobs of the flow."""

    rules: ClassVar[tuple[Rule, ...]] = ()


class FlowCondition(Model):
    """Observed status of a job of a flow. Not written: see jobStatusList."""

    phase: str = ""
    """Phase of the job."""
    create_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    """Creation time of the job."""
    running_duration: str = ""
    """Total running time of the job."""
    task_status_count: dict[str, TaskCounts] = Field(default_factory=dict)
    """Number of pods by task and pod phase."""


class VolcanoFlowStatus(JobFlowStatus):
    """Observed status of a flow, set by the flow controller."""

    conditions: dict[str, FlowCondition] = Field(default_factory=dict)
    """Observed status of each job. Not written: see jobStatusList."""
    un_know_jobs: list[str] = Field(default_factory=list)
    """Names of jobs in an unknown phase."""


class QueueCluster(Model):
    """Part of a queue in another cluster."""

    name: str = ""
    """Name of the cluster."""
    weight: Int32 = 0
    """Weight of the cluster."""
    capacity: dict[str, Quantity] = Field(default_factory=dict)
    """Resources of the cluster."""


class VolcanoQueueSpec(QueueSpec):
    """Specification of a queue."""

    extend_clusters: list[QueueCluster] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Other clusters for the jobs of the queue. Without effect: jobs are not forwarded."""


class Reservation(Model):
    """Nodes reserved for a queue."""

    nodes: list[str] = Field(default_factory=list)
    """Names of the nodes."""
    resource: ResourceList | None = None
    """Resources of the nodes."""


class VolcanoQueueStatus(QueueStatus):
    """Observed status of a queue, set by the scheduler and the queue controller."""

    reservation: Reservation | None = None
    """Not written: no nodes are reserved for a queue."""


class HyperNodeCondition(Condition):
    """Condition of a HyperNode."""

    observed_generation: Int64 = 0
    """Generation of the spec that the condition was computed from."""


class VolcanoHyperNodeStatus(HyperNodeStatus):
    """Observed status of a HyperNode."""

    conditions: list[HyperNodeCondition] = Field(  # type: ignore[assignment]
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions of the HyperNode."""


def _bound(model: type[M], **parts: type[Model]) -> type[M]:
    """Return a model under Volcano's group and kind, with other types of its parts.

    It has no rules at the root: they would be evaluated for each status, also of an object that Volcano has admitted, whose
    status could then never be written. Admission checks the same when the object is created. The errors of an unchanged spec
    are forgiven by the API server.
    """
    version = VOLCANO.api_version(str(model.model_fields["api_version"].default))
    kind = VOLCANO.kind(model.__name__)
    fields: dict[str, Any] = {"api_version": _only(version), "kind": _only(kind)}
    for part, shape in parts.items():
        old = model.model_fields[part]
        fields[part] = (shape, Field() if old.is_required() else Field(default=shape()))
    bound_model = create_model(kind, __base__=model, __doc__=model.__doc__, __module__=__name__, **fields)
    bound_model.binding, bound_model.rules = VOLCANO, ()
    return bound_model


def _only(value: str) -> tuple[Any, str]:
    """Return the definition of a field that has this value only."""
    return Annotated[str, Field(pattern=f"^{value}$")], value


MODELS = (
    _bound(BatchJob, spec=JobSpec, status=JobStatus),
    _bound(CronBatchJob, spec=CronJobSpec, status=CronJobStatus),
    _bound(JobFlow, spec=VolcanoFlowSpec, status=VolcanoFlowStatus),
    _bound(JobTemplate, spec=JobSpec),
    _bound(PodGroup),
    _bound(Queue, spec=VolcanoQueueSpec, status=VolcanoQueueStatus),
    _bound(Command),
    _bound(HyperNode, status=VolcanoHyperNodeStatus),
    _bound(NumaTopology),
)
"""Volcano's model of each model of volcanopy."""
