"""Gates of a job: the conditions that a waiting job passes one after another, defined once.

The scheduler's explanations, the CRD of PodGroups, the CLI and the documents take names, order and descriptions from here.
"""

from enum import StrEnum
from typing import Self


class Gate(StrEnum):
    """A condition that a job passes before its pods are placed; members are in the order in which a job passes them.

    ``heading`` is a short title, ``description`` one sentence, ``unblocked_by`` what lets a job pass. ``before_pods`` is
    whether the gate is checked when the job is enqueued, before its pods are created; ``before_nodes`` whether it is
    checked when they are placed. Some gates are checked both times.
    """

    heading: str
    description: str
    unblocked_by: str
    before_pods: bool
    before_nodes: bool

    def __new__(
        cls, value: str, heading: str, description: str, unblocked_by: str, before_pods: bool, before_nodes: bool
    ) -> Self:
        """Create a member with its texts."""
        gate = str.__new__(cls, value)
        gate._value_ = value
        gate.heading = heading
        gate.description = description
        gate.unblocked_by = unblocked_by
        gate.before_pods = before_pods
        gate.before_nodes = before_nodes
        return gate

    QUEUE = (
        "queue",
        "Queue open",
        "The queue exists, is a leaf, is open, is not held or drained, and if it is FIFO the job is its head.",
        "opening or resuming the queue, or admitting the head job of a FIFO queue",
        True,
        True,
    )
    QUOTA = (
        "quota",
        "ResourceQuota",
        "The ResourceQuotas of the namespace have enough left for the job's minimum.",
        "freeing or raising the ResourceQuota",
        True,
        False,
    )
    OVERCOMMIT = (
        "overcommit",
        "Cluster overcommit",
        "The requests of admitted jobs stay below what the cluster may reserve for them.",
        "running pods or admitted jobs that end, or more nodes",
        True,
        False,
    )
    LIMITS = (
        "limits",
        "Limits of queue, user and group",
        "The job stays below the limits on running jobs and resources of the queue, its user and the user's groups.",
        "jobs of the queue, user or group that end, or a higher limit",
        True,
        True,
    )
    GANG = (
        "gang",
        "Gang complete",
        "As many pods exist without scheduling gates as the gang and each of its tasks require.",
        "creating the missing pods or removing their scheduling gates",
        False,
        True,
    )
    SHARE = (
        "share",
        "Fair share",
        "The queue stays below its fair share, unless no other queue requests the rest.",
        "pods of the queue that end, or a larger fair share",
        False,
        True,
    )
    CAPABILITY = (
        "capability",
        "Queue capability",
        "The queue and those above it stay below capability and borrowing limit.",
        "pods of the queue that end, or a higher capability",
        True,
        True,
    )
    TOPOLOGY = (
        "topology",
        "Network topology",
        "A hypernode of the required tier has enough available for the pods that must run close together.",
        "free resources within one hypernode, or a higher tier in networkTopology",
        False,
        True,
    )
    NODES = (
        "nodes",
        "Nodes",
        "Enough nodes pass all filters and have enough available for the pods that must start together.",
        "free resources on nodes, or nodes that the pods tolerate and select",
        False,
        True,
    )
    ACTIONS = (
        "actions",
        "Configured actions",
        "The scheduler's configuration contains the actions that enqueue the job and place its pods.",
        "adding the action to the scheduler's configuration",
        True,
        True,
    )


GATES: tuple[Gate, ...] = tuple(Gate)
"""All gates in the order in which a job passes them."""
