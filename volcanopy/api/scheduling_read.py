"""Read models of :mod:`volcanopy.api.scheduling`, written by ``make golden`` from the full models."""

from datetime import datetime
from typing import Any

from volcanopy.api.alternatives_read import PodGroupAlternative, SelectedAlternative
from volcanopy.api.read_model import Condition, LabelSelector, Meta, Quantities, ReadModel


class NetworkTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int = 1
    min_sub_groups: int = 0
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    alternatives: tuple[PodGroupAlternative, ...] = ()


class Explanation(ReadModel, frozen=True, kw_only=True, gc=False):
    gate: str = ""
    message: str = ""
    unblocked_by: str = ""
    numbers: dict[str, str] = {}
    nodes: dict[str, int] = {}
    amounts: dict[str, Quantities] = {}
    blocked_by: tuple[str, ...] = ()


class PodMove(ReadModel, frozen=True, kw_only=True, gc=False):
    pod: str
    node: str
    requests: Quantities = {}


class EstimatedStart(ReadModel, frozen=True, kw_only=True, gc=False):
    time: datetime | None = None
    basis: str = ""
    message: str = ""


class PodGroupStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    explanation: Explanation | None = None
    estimated_start: EstimatedStart | None = None
    moves: tuple[PodMove, ...] = ()
    moved_at: datetime | None = None
    evicted_since: datetime | None = None
    evicted_seconds: int = 0
    alternative: SelectedAlternative | None = None
    admitted_at: datetime | None = None
    ready_resources: Quantities = {}


class PodGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "scheduling.volcanopy.io/v1beta1"
    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(ReadModel, frozen=True, kw_only=True, gc=False):
    resource: Quantities = {}


class Subjects(ReadModel, frozen=True, kw_only=True, gc=False):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class QueueLimit(ReadModel, frozen=True, kw_only=True, gc=False):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Quantities = {}
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None


class QueueSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    weight: int = 1
    capability: Quantities = {}
    deserved: Quantities = {}
    guarantee: Guarantee = Guarantee()
    borrowing_limit: Quantities = {}
    lending_limit: Quantities = {}
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None
    limits: tuple[QueueLimit, ...] = ()
    stop_policy: str = "None"
    reclaimable: bool = True
    parent: str = ""
    priority: int = 0
    type: str = ""
    affinity: dict[str, Any] | None = None
    dequeue_strategy: str = "traverse"
    job_order: str = "configured"
    submitters: Subjects | None = None
    administrators: Subjects | None = None


class QueueUser(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str
    allocated: Quantities = {}
    share: str = "0"
    fair_share: str = "0"
    credit: str = "0"
    usage: dict[str, str] = {}


class QueueStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    state: str = ""
    allocated: Quantities = {}
    fair_share: Quantities = {}
    guaranteed: Quantities = {}
    borrowed: Quantities = {}
    waiting: Quantities = {}
    share: str = ""
    credit: dict[str, str] = {}
    usage: dict[str, str] = {}
    credit_time: datetime | None = None
    users: tuple[QueueUser, ...] = ()
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0
    jobs: int = 0


class Queue(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "scheduling.volcanopy.io/v1beta1"
    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
