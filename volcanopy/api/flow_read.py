"""Read models of :mod:`volcanopy.api.flow`, written by ``make golden`` from the full models."""

from datetime import datetime
from typing import Any

from volcanopy.api.batch_read import BatchJobSpec
from volcanopy.api.read_model import Meta, ReadModel


class FlowDependsOn(ReadModel, frozen=True, kw_only=True, gc=False):
    targets: tuple[str, ...] = ()
    probe: dict[str, Any] | None = None


class Patch(ReadModel, frozen=True, kw_only=True, gc=False):
    job_spec: dict[str, Any] = {}


class FlowJob(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    template: str = ""
    depends_on: FlowDependsOn | None = None
    patch: Patch | None = None
    max_retry: int = 0


class JobFlowSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    flows: tuple[FlowJob, ...] = ()
    job_retain_policy: str = "retain"
    failure_policy: str = "stop"


class FlowState(ReadModel, frozen=True, kw_only=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class RunningHistory(ReadModel, frozen=True, kw_only=True, gc=False):
    state: str = ""
    start_timestamp: datetime | None = None
    end_timestamp: datetime | None = None


class FlowJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
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
    api_version: str = "flow.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "flow.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: BatchJobSpec = BatchJobSpec()
    status: JobTemplateStatus = JobTemplateStatus()
