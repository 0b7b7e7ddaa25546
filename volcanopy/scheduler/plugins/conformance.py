"""conformance: what keeps the cluster itself alive is never evicted."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.framework.plugin import GangPreemptor, NoArguments, Plugin
from volcanopy.scheduler.ledger.views import TaskView

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin[NoArguments]):
    """Spare system-critical pods and everything in kube-system."""

    name: ClassVar[str] = "conformance"

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return [candidate for candidate in candidates if not is_critical(candidate)]

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return self.preemptable(reclaimer, candidates)

    def preemptable_at_all(self, preemptor: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return self.preemptable(preemptor, victims)

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return self.preemptable(reclaimer, victims)

    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return self.preemptable(preemptor.task, candidates)

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return self.preemptable(preemptor.task, victims)

    def evictable(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """All but the critical ones."""
        return [victim for victim in victims if not is_critical(victim)]


def is_critical(task: TaskView) -> bool:
    """Whether a pod is one that the cluster needs."""
    pod = task.pod
    return pod.spec.priority_class_name in CRITICAL or pod.metadata.namespace == "kube-system"
