"""Read models of Queue and PodGroup; the full models are in :mod:`volcanopy.api.scheduling`.

:mod:`volcanopy.api.core` has them as well, beside the built-in kinds that the scheduler reads.
"""

from typing import Any

from msgspec import field

from volcanopy.api.read_model import Condition, LabelSelector, Meta, Quantities, ReadModel


class Guarantee(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a queue keeps for itself even when it is idle."""

    resource: Quantities = field(default_factory=dict)


class QueueLimit(ReadModel, frozen=True, kw_only=True, gc=False):
    """The most that some users each, or groups together, may have in a queue and those below it."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Quantities = field(default_factory=dict)
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None


class Subjects(ReadModel, frozen=True, kw_only=True, gc=False):
    """People and programs: everyone whom one of the lists names."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class QueueSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """A queue's claim on the cluster."""

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
    """What a queue holds, and what the scheduler has worked out of it."""

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
    """How close together a gang must run."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """How the pods of a group divide into sub-groups that are gangs themselves."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a gang needs to start."""

    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class Explanation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Why a gang waits, for programs."""

    gate: str = ""
    message: str = ""
    unblock: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    amounts: dict[str, Quantities] = field(default_factory=dict)
    ahead: tuple[str, ...] = ()


class PodGroupStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Where a gang stands."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    explanation: Explanation | None = None


class PodGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    """A gang of pods."""

    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
