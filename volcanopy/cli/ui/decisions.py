"""The last decisions of the scheduler, as changes of pods and pod groups show them: who was admitted, placed, evicted."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from volcanopy.api import names
from volcanopy.api.core import Condition, Pod, PodGroup
from volcanopy.api.model import Json
from volcanopy.cli.ui.node_usage import job_of

_KEPT = 2000
_MERGED = timedelta(seconds=2)
"""Pods of a job within this time are one decision."""
_NODES = 8
"""Most nodes named in a decision."""


@dataclass(frozen=True)
class Decision:
    """Something that was decided about a job: ``action`` is admitted, placed, nominated, evicted or waits.

    Of an eviction, ``preemptor`` is ``namespace/name`` of the job for which pods were evicted, and ``paid`` the time at which
    pods of that job were placed afterwards, None as long as they are not.
    """

    time: datetime
    action: str
    job: str
    queue: str = ""
    pods: int = 0
    nodes: tuple[str, ...] = ()
    message: str = ""
    preemptor: str = ""
    paid: datetime | None = None

    def document(self) -> Json:
        """Return it as a JSON object."""
        return {
            "time": self.time.isoformat(timespec="seconds"),
            "action": self.action,
            "job": self.job,
            "queue": self.queue,
            "pods": self.pods,
            "nodes": list(self.nodes),
            "message": self.message,
            "preemptor": self.preemptor,
            "paidAfter": (self.paid - self.time).total_seconds() if self.paid is not None else None,
        }


@dataclass
class Decisions:
    """The newest decisions, the last one at the end."""

    items: deque[Decision] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _unpaid: set[str] = field(default_factory=set)
    """Jobs for which pods were evicted and none placed since."""

    def take_pod(self, old: Pod | None, pod: Pod, now: datetime) -> None:
        """Take a changed pod; ``old`` is None for one that is new."""
        before = old.spec.node_name if old is not None else ""
        if pod.spec.node_name and not before:
            self._add(Decision(now, "placed", job_of(pod), pods=1, nodes=(pod.spec.node_name,)))
            self._pay(job_of(pod), now)
        nominated = pod.status.nominated_node_name
        if nominated and not pod.spec.node_name and (old is None or old.status.nominated_node_name != nominated):
            self._add(Decision(now, "nominated", job_of(pod), pods=1, nodes=(nominated,)))
        eviction = _disruption(pod)
        if eviction is not None and (old is None or _disruption(old) is None):
            nodes = (pod.spec.node_name,) if pod.spec.node_name else ()
            job = pod.metadata.annotations.get(names.PREEMPTOR, "")
            evicted = Decision(
                now, "evicted", job_of(pod), pods=1, nodes=nodes, message=eviction.message, preemptor=job
            )
            self._add(evicted)
            if job:
                self._unpaid.add(job)

    def take_group(self, old: PodGroup | None, group: PodGroup, name: str, now: datetime) -> None:
        """Take a changed pod group; ``name`` is that of its job, ``namespace/name``."""
        phase = group.status.phase
        before = old.status.phase if old is not None else ""
        if phase == "Inqueue" and before in {"", "Pending"}:
            self._add(Decision(now, "admitted", name, group.spec.queue))
        reason, earlier = group.status.explanation, old.status.explanation if old is not None else None
        if reason is not None and reason.gate and (earlier is None or earlier.gate != reason.gate):
            self._add(Decision(now, "waits", name, group.spec.queue, message=f"{reason.gate}: {reason.message}"))

    def _pay(self, job: str, now: datetime) -> None:
        """Record that pods of a job were placed for which others were evicted."""
        if job not in self._unpaid:
            return
        self._unpaid.discard(job)
        for place, decision in enumerate(self.items):
            if decision.preemptor == job and decision.paid is None:
                self.items[place] = replace(decision, paid=now)

    def _add(self, decision: Decision) -> None:
        for place in range(len(self.items) - 1, max(len(self.items) - 8, -1), -1):
            last = self.items[place]
            same = (last.action, last.job, last.message) == (decision.action, decision.job, decision.message)
            if same and decision.pods and decision.time - last.time < _MERGED:
                nodes = tuple(dict.fromkeys((*last.nodes, *decision.nodes)))[:_NODES]
                self.items[place] = replace(last, pods=last.pods + decision.pods, nodes=nodes)
                return
        self.items.append(decision)

    def per_minute(self, now: datetime, minutes: int) -> dict[str, list[int]]:
        """Return for each action the number of pods or jobs in each of the last minutes, the oldest first."""
        counts = {action: [0] * minutes for action in ("admitted", "placed", "evicted")}
        for decision in self.items:
            age = int((now - decision.time).total_seconds() // 60)
            if 0 <= age < minutes and decision.action in counts:
                counts[decision.action][minutes - 1 - age] += max(decision.pods, 1)
        return counts

    def documents(self, most: int) -> list[Json]:
        """Return the newest decisions, the newest first."""
        return [decision.document() for decision in list(self.items)[: -most - 1 : -1]]


def _disruption(pod: Pod) -> Condition | None:
    conditions: Iterable[Condition] = pod.status.conditions
    return next((item for item in conditions if item.type == "DisruptionTarget" and item.status == "True"), None)
