"""What the plugins of a session say together, as far as one of them has to know: the others remain unknown to it."""

from collections.abc import Sequence

from volcanopy.scheduler.framework.dispatch import Hooks
from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.placement.node_selection import Placement


class SessionQueries:
    """The answer to :class:`volcanopy.scheduler.ledger.cluster.PluginQueries`."""

    def __init__(self, hooks: Hooks, placement: Placement, actions: Sequence[str]) -> None:
        self._hooks, self._placement = hooks, placement
        self._displaces = "preempt" in actions

    def infeasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes on which the task cannot be whoever leaves there."""
        return self._placement.infeasible_nodes(task)

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Why the queue may not take ``count`` more tasks equal to this one."""
        return self._hooks.allocatable(queue, task, count)

    def preemptable(self, preemptor: TaskView, others: Sequence[TaskView]) -> list[TaskView]:
        """Those of the others, of the same queue, that could be made to leave for the task; nobody without ``preempt``."""
        may = self._displaces and preemptor.pod.spec.preemption_policy != "Never"
        return self._hooks.preemptable(preemptor, [one for one in others if one.preemptable]) if may and others else []
