"""The slice that we read of Queues; :mod:`volcanopy.api.core` has it as well, beside the others that come in great numbers."""

from typing import Any

from msgspec import field

from volcanopy.api.partial import Meta, Quantities, Slice


class Guarantee(Slice, frozen=True, kw_only=True, gc=False):
    """What a queue keeps for itself even when it is idle."""

    resource: Quantities = field(default_factory=dict)


class QueueLimit(Slice, frozen=True, kw_only=True, gc=False):
    """The most that some users each, or groups together, may have in a queue and those below it."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Quantities = field(default_factory=dict)
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None


class QueueSpec(Slice, frozen=True, kw_only=True, gc=False):
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


class QueueStatus(Slice, frozen=True, kw_only=True, gc=False):
    """What a queue holds, and what the scheduler has worked out of it."""

    state: str = ""
    allocated: Quantities = field(default_factory=dict)
    deserved: Quantities = field(default_factory=dict)
    guaranteed: Quantities = field(default_factory=dict)
    borrowed: Quantities = field(default_factory=dict)
    waiting: Quantities = field(default_factory=dict)
    share: str = ""


class Queue(Slice, frozen=True, kw_only=True, gc=False):
    """A queue."""

    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
