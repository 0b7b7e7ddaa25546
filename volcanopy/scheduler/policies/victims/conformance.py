"""conformance: system-critical pods are never evicted."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.plugin import GangPreemptor, NoArguments
from volcanopy.scheduler.policy.protection import Protection

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Protection[NoArguments]):
    """Protect pods of the system-critical priority classes and all pods in kube-system."""

    name: ClassVar[str] = "conformance"
    evicts_less_for_more: ClassVar[bool] = True

    def unprotected(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return all but the critical tasks."""
        return [victim for victim in victims if not is_critical(victim)]

    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return all but the critical tasks."""
        return self.unprotected(candidates)

    def evictable(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return all but the critical tasks."""
        return self.unprotected(victims)


def is_critical(task: TaskView) -> bool:
    """Return whether a pod is system-critical."""
    pod = task.pod
    return pod.spec.priority_class_name in CRITICAL or pod.metadata.namespace == "kube-system"
