"""Read models of JobFlow and JobTemplate; the full models are in :mod:`volcanopy.api.flow`."""

from datetime import datetime
from typing import Any

from msgspec import field

from volcanopy.api.batch_read import BatchJobSpec
from volcanopy.api.read_model import Meta, ReadModel


class FlowDependsOn(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs that a flow's job waits for, and the probes that they must pass."""

    targets: tuple[str, ...] = ()
    probe: dict[str, Any] | None = None


class Patch(ReadModel, frozen=True, kw_only=True, gc=False):
    """Changes to the job template."""

    job_spec: dict[str, Any] = field(default_factory=dict)


class FlowJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """A job of a flow."""

    name: str = ""
    template: str = ""
    depends_on: FlowDependsOn | None = None
    patch: Patch | None = None
    max_retry: int = 0


class JobFlowSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs of a flow and the dependencies between them."""

    flows: tuple[FlowJob, ...] = ()
    job_retain_policy: str = "retain"
    failure_policy: str = "stop"


class FlowState(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a flow, with the reason for it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class RunningHistory(ReadModel, frozen=True, kw_only=True, gc=False):
    """Period that a job spent in one phase."""

    state: str = ""
    start_timestamp: datetime | None = None
    end_timestamp: datetime | None = None


class FlowJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of one job of a flow."""

    name: str = ""
    state: str = ""
    message: str = ""
    start_timestamp: datetime | None = None
    end_timestamp: datetime | None = None
    restart_count: int = 0
    attempt: int = 0
    running_duration: str = ""
    running_histories: tuple[RunningHistory, ...] = ()


class JobFlowStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a flow."""

    state: FlowState = FlowState()
    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    waiting_jobs: tuple[str, ...] = ()
    job_status_list: tuple[FlowJobStatus, ...] = ()
    observed_generation: int = 0


class JobFlow(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs that run in the order of their dependencies."""

    metadata: Meta
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs created from the template."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of the jobs that flows create."""

    metadata: Meta
    spec: BatchJobSpec = BatchJobSpec()
    status: JobTemplateStatus = JobTemplateStatus()
