"""The cluster under simulation: plans are applied as the services write them."""

from datetime import datetime

from msgspec.structs import replace

from volcanopy.scheduler.model.plan import SetPodGroup, SetQueue
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.scheduler.state import statuses
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.simulation import Simulation


class VirtualCluster(Simulation):
    """A simulation in which statuses of pod groups and queues are written, too: decisions depend on them over time."""

    def __init__(
        self, cluster: Cluster, config: SchedulerConfig, now: datetime, graceful: bool, registry: Registry | None
    ) -> None:
        super().__init__(cluster, config, now, replaced=lambda _: True, graceful=graceful, registry=registry)

    def end_pod(self, key: str) -> None:
        """End a pod, which the controller creates again; nothing happens if it does not exist."""
        pod = self.pod(key)
        if pod is not None:
            self._end(pod)

    def _set_group(self, effect: SetPodGroup) -> None:
        group = self.cluster.group(effect.pod_group)
        if group is None:
            return
        status = statuses.group_status(group.status, effect, self.session, self.now)
        if status != group.status:
            self.phase_changes += status.phase != group.status.phase
            self.cluster.put(replace(group, status=status))

    def _set_queue(self, effect: SetQueue) -> None:
        queue = self.cluster.objects.get(("Queue", effect.queue))
        if queue is not None:
            self.cluster.put(replace(queue, status=statuses.queue_status(queue.status, effect)))
