"""cdp: a pod that has only just started is left alone for a while (cooldown protection)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from volcanopy.scheduler.framework.plugin import GangPreemptor, NoArguments, Plugin
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.task_status import Status

KEY = "volcanopy.io/cooldown-time"


class Cdp(Plugin[NoArguments]):
    """A running pod is no victim before its cooldown time (a label or an annotation) has passed since it was scheduled."""

    name: ClassVar[str] = "cdp"

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those that have cooled down."""
        return [candidate for candidate in candidates if not self._is_hot(candidate)]

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those that have cooled down."""
        return self.preemptable(reclaimer, candidates)

    def preemptable_at_all(self, preemptor: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those that have cooled down."""
        return self.preemptable(preemptor, victims)

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those that have cooled down."""
        return self.preemptable(reclaimer, victims)

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Those that have cooled down."""
        return self.preemptable(preemptor.task, victims)

    def _is_hot(self, task: TaskView) -> bool:
        pod = task.pod
        cooldown = _cooldown(pod.metadata.labels.get(KEY, "")) or _cooldown(pod.metadata.annotations.get(KEY, ""))
        if cooldown is None or task.status != Status.RUNNING:
            return False
        scheduled = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status != "True" or scheduled.last_transition_time is None:
            return False
        return scheduled.last_transition_time + cooldown > self.cluster.now


def _cooldown(text: str) -> timedelta | None:
    return pod_fields.duration(text) if text else None
