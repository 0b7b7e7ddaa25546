"""What the searches of victims for one job met."""

from dataclasses import dataclass


@dataclass
class Trace:
    """What the searches for a job met, for messages."""

    is_tried: bool = False
    has_evictable: bool = False
    """Whether the plugins allowed to evict any bundle."""
    is_rejected_at_once: bool = False
    """Whether the plugins allowed to evict nothing for the first task, before any was placed."""
    is_preempted_back: bool = False
    """Whether an eviction was rejected because a victim could preempt back."""
