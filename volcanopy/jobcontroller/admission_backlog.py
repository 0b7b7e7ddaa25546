"""Whether pods are created together with their PodGroup, before the scheduler has admitted it.

That saves a small job that starts at once a write of the scheduler, a cycle and a reconcile. The scheduler starts no pod of a
PodGroup that it has not admitted; so what is limited is the number of pods that wait, not what they may use.
"""

from collections import Counter

from volcanopy.api.core import PodGroup
from volcanopy.jobcontroller.status import ADMITTED

MOST_PODS_OF_A_GANG, MOST_PODS_OF_A_JOB = 32, 8
"""Pods of a job that are created together with its PodGroup, of a gang and of one that can start with fewer pods.

An elastic job whose pods exist may start all of them before the jobs that come after it, however few it needs.
"""
MOST_PODS_OF_A_QUEUE = 1_000
"""Pods that PodGroups of a queue need which are not admitted. Beyond that, the pods of further jobs wait for the admission."""


class AdmissionBacklog:
    """The PodGroups that are not admitted, by uid, and how many pods they need by queue."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, int, bool]] = {}
        """By uid: the queue, the pods, and whether the scheduler has rejected the admission."""
        self._pods: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()

    def update(self, group: PodGroup) -> None:
        """Take the latest state of a PodGroup."""
        self.remove(group)
        if group.status.phase in ADMITTED or group.metadata.deletion_timestamp is not None:
            return
        rejected = any(
            condition.type == "Unschedulable" and condition.status == "True" for condition in group.status.conditions
        )
        entry = group.spec.queue, max(group.spec.min_member, 1), rejected
        self._waiting[group.metadata.uid] = entry
        self._count(entry, 1)

    def remove(self, group: PodGroup) -> None:
        """Remove a PodGroup that is deleted."""
        entry = self._waiting.pop(group.metadata.uid, None)
        if entry is not None:
            self._count(entry, -1)

    def _count(self, entry: tuple[str, int, bool], sign: int) -> None:
        queue, pods, rejected = entry
        self._pods[queue] += sign * pods
        self._rejected[queue] += sign * rejected
        if not self._pods[queue]:
            del self._pods[queue], self._rejected[queue]

    def permits(self, queue: str, pods: int, least: int) -> bool:
        """Whether the pods of a job, which needs ``least`` of them, may be created before its admission.

        They may if no job of the queue was rejected and few pods wait.
        """
        most = min(
            MOST_PODS_OF_A_GANG if least == pods else MOST_PODS_OF_A_JOB, MOST_PODS_OF_A_QUEUE - self._pods[queue]
        )
        return pods <= most and not self._rejected[queue]
