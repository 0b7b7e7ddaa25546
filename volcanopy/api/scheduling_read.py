"""Read models of Queue and PodGroup; the full models are in :mod:`volcanopy.api.scheduling`.

:mod:`volcanopy.api.core` has them as well, beside the built-in kinds that the scheduler reads.
"""

from typing import Any

from msgspec import field

from volcanopy.api.read_model import Condition, LabelSelector, Meta, Quantities, ReadModel


class Guarantee(ReadModel, frozen=True, kw_only=True, gc=False):
    """Resources guaranteed to a queue."""

    resource: Quantities = field(default_factory=dict)


class QueueLimit(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limits of users and groups in a queue and its descendants."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Quantities = field(default_factory=dict)
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None


class Subjects(ReadModel, frozen=True, kw_only=True, gc=False):
    """Users, groups, service accounts and namespaces."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class QueueSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a queue."""

    weight: int = 1
    capability: Quantities = field(default_factory=dict)
    deserved: Quantities = field(default_factory=dict)
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    priority: int = 0
    parent: str = ""
    affinity: dict[str, Any] | None = None
    dequeue_strategy: str = "traverse"
    borrowing_limit: Quantities = field(default_factory=dict)
    lending_limit: Quantities = field(default_factory=dict)
    priority_offset: int = 0
    priority_fence: bool = True
    stop_policy: str = "None"
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None
    limits: tuple[QueueLimit, ...] = ()
    type: str = ""
    submitters: Subjects | None = None
    administrators: Subjects | None = None


class QueueStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a queue."""

    state: str = ""
    allocated: Quantities = field(default_factory=dict)
    deserved: Quantities = field(default_factory=dict)
    guaranteed: Quantities = field(default_factory=dict)
    borrowed: Quantities = field(default_factory=dict)
    waiting: Quantities = field(default_factory=dict)
    share: str = ""
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0
    jobs: int = 0


class Queue(ReadModel, frozen=True, kw_only=True, gc=False):
    """A queue."""

    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    """Network topology constraint."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """Division of the pods of a PodGroup into sub-groups."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a PodGroup."""

    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class Explanation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reason why a PodGroup is unschedulable, in structured form."""

    gate: str = ""
    message: str = ""
    unblocked_by: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    amounts: dict[str, Quantities] = field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()


class PodGroupStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a PodGroup."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    explanation: Explanation | None = None


class PodGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    """A group of pods that are scheduled together."""

    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
