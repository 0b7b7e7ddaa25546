"""cdp: cooldown protection, recently started pods are not evicted."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.api import names
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Purpose, Victims

KEY = names.COOLDOWN_TIME


class Cdp(Plugin[NoArguments], Victims):
    """Protect a running pod until its cooldown time (a label or an annotation) has passed since it was scheduled."""

    name: ClassVar[str] = "cdp"

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """The tasks whose cooldown time has passed; all if they are evicted for no task."""
        if purpose is Purpose.SHUFFLE:
            return victims
        return [victim for victim in victims if not self._cools_down(victim)]

    def _cools_down(self, task: TaskView) -> bool:
        pod = task.pod
        texts = pod.metadata.labels.get(KEY, ""), pod.metadata.annotations.get(KEY, "")
        cooldown = next(filter(None, map(pod_fields.duration, texts)), None)
        if cooldown is None or task.status != Status.RUNNING:
            return False
        scheduled = next((condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status != "True" or scheduled.last_transition_time is None:
            return False
        return scheduled.last_transition_time + cooldown > self.cluster.now
