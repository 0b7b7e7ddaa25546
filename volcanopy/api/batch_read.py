"""Read models of :mod:`volcanopy.api.batch`, written by ``make golden`` from the full models."""

from datetime import datetime
from typing import Any

from volcanopy.api.alternatives_read import Alternative, SelectedAlternative
from volcanopy.api.core import PodTemplate
from volcanopy.api.lifecycle_read import LifecyclePolicy
from volcanopy.api.read_model import Condition, Meta, ReadModel
from volcanopy.api.scheduling_read import EstimatedStart, NetworkTopology


class VolumeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class DependsOn(ReadModel, frozen=True, kw_only=True, gc=False):
    name: tuple[str, ...] = ()
    iteration: str = "all"


class PartitionPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    total_partitions: int = 1
    partition_size: int = 1
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    parallelism: int | None = None
    template: PodTemplate = PodTemplate()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 3
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class BatchJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    tasks: tuple[TaskSpec, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    suspend: bool = False
    queue: str = ""
    priority_class_name: str = ""
    scheduler_name: str = "volcanopy"
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = {}
    max_retry: int = 3
    pod_replacement_policy: str = "Failed"
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    volumes: tuple[VolumeSpec, ...] = ()
    network_topology: NetworkTopology | None = None
    running_estimate: str = ""
    alternatives: tuple[Alternative, ...] = ()


class JobState(ReadModel, frozen=True, kw_only=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class TaskCounts(ReadModel, frozen=True, kw_only=True, gc=False):
    phase: dict[str, int] = {}


class Restart(ReadModel, frozen=True, kw_only=True, gc=False):
    before: int = 0
    task: str = ""
    partition: str = ""
    pod: str = ""


class DelayedAction(ReadModel, frozen=True, kw_only=True, gc=False):
    action: str = ""
    event: str = ""
    due: datetime | None = None
    task: str = ""
    partition: str = ""
    pod: str = ""
    uid: str = ""


class Eviction(ReadModel, frozen=True, kw_only=True, gc=False):
    time: datetime | None = None
    by: str = ""
    pods: int = 1


class BatchJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    state: JobState = JobState()
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    task_status_count: dict[str, TaskCounts] = {}
    completed_indexes: dict[str, str] = {}
    version: int = 0
    retry_count: int = 0
    alternative: SelectedAlternative | None = None
    admitted_time: datetime | None = None
    start_time: datetime | None = None
    running_duration: str = ""
    estimated_start: EstimatedStart | None = None
    resource_seconds: dict[str, str] = {}
    usage_time: datetime | None = None
    evictions: tuple[Eviction, ...] = ()
    controlled_resources: dict[str, str] = {}
    pod_group_unknown: bool = False
    restarts: tuple[Restart, ...] = ()
    delayed: tuple[DelayedAction, ...] = ()
    last_command: str = ""
    quick_restarts: int = 0
    restart_at: datetime | None = None


class BatchJob(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "batch.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()
