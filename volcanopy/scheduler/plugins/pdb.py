"""pdb: no more pods are evicted at once than their disruption budgets allow."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.api import core, policy
from volcanopy.scheduler.framework.plugin import GangPreemptor, NoArguments, Plugin
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.selectors import matches


class Pdb(Plugin[NoArguments]):
    """Keep to the PodDisruptionBudgets: a pod that a budget protects goes only while the budget has some left.

    What this session evicts already is taken off the budgets. A pod that no budget is about may go.
    """

    name: ClassVar[str] = "pdb"

    def open(self) -> None:
        """Sort the budgets by namespace."""
        self._budgets: dict[str, list[int]] = {}
        for number, budget in enumerate(self.cluster.snapshot.budgets):
            self._budgets.setdefault(budget.metadata.namespace, []).append(number)
        self._covering: dict[int, tuple[int, ...]] = {}

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(candidates)

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(candidates)

    def preemptable_at_all(self, preemptor: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(victims)

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(victims)

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(victims)

    def evictable(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those whom all their budgets let go, in the order given."""
        return self._within_budgets(victims)

    def _within_budgets(self, candidates: Sequence[TaskView]) -> list[TaskView]:
        if not self._budgets:
            return list(candidates)
        left = [budget.status.disruptions_allowed for budget in self.cluster.snapshot.budgets]
        for row in self.cluster.ledger.evictions:
            for number in self._of(self.cluster.task(row)):
                left[number] -= 1
        going = []
        for candidate in candidates:
            numbers = self._of(candidate)
            if all(left[number] > 0 for number in numbers):
                for number in numbers:
                    left[number] -= 1
                going.append(candidate)
        return going

    def _of(self, task: TaskView) -> tuple[int, ...]:
        """The budgets that a pod's eviction is charged to."""
        known = self._covering.get(task.row)
        if known is None:
            pod, budgets = task.pod, self.cluster.snapshot.budgets
            candidates = self._budgets.get(pod.metadata.namespace, ())
            known = self._covering[task.row] = tuple(number for number in candidates if _protects(budgets[number], pod))
        return known


def _protects(budget: policy.PodDisruptionBudget, pod: core.Pod) -> bool:
    is_charged_already = pod.metadata.name in budget.status.disrupted_pods
    return not is_charged_already and matches(budget.spec.selector, pod.metadata.labels)
