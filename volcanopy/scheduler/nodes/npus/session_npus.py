"""What the plugin that shares devices asks of each kind of NPU in a session."""

from collections.abc import Hashable
from typing import Protocol

from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import NodeRejection


class SessionNpus(Protocol):
    """The NPUs of one kind. Nothing but ``requested`` is asked about a task that requests none."""

    @property
    def compares_nodes(self) -> bool:
        """Whether the score of a node depends on the others."""
        ...

    @property
    def lock(self) -> str:
        """The annotation by which a node is locked while a pod with such NPUs is bound to it; empty if it is not."""
        ...

    def requested(self, task: TaskView) -> bool:
        """Return whether the task requests NPUs of the kind."""
        ...

    def cache_key(self, task: TaskView) -> Hashable:
        """Return what the answers for a task depend on besides its shape."""
        ...

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Return the nodes that the task cannot run on, and why."""
        ...

    def score(self, task: TaskView, nodes: NodesView) -> Floats:
        """Return how well each node suits the task, by the policy and its weight."""
        ...

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """Return the annotations with the NPUs of a task that is bound to a node."""
        ...
