"""conformance: system-critical pods are never evicted."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Purpose, Victims

CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin[NoArguments], Victims):
    """Protect pods of the system-critical priority classes and all pods in kube-system."""

    name: ClassVar[str] = "conformance"

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """All but the critical tasks."""
        pods = self.cluster.snapshot.tasks.pods[[victim.row for victim in victims]].tolist()
        return [
            victim
            for victim, pod in zip(victims, pods, strict=True)
            if pod.spec.priority_class_name not in CRITICAL and pod.metadata.namespace != "kube-system"
        ]
