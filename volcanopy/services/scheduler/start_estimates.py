"""Estimated starts of waiting jobs, in the statuses of their PodGroups.

A round runs the what-if engine under virtual time on a copy of the cluster state, in a thread; the copy takes what changed
since the round before. Rounds are a minute apart, or less for jobs without an estimate, and take a fiftieth of a core at most.
A group is written once a minute at most, and only if its estimate changed; the newest and the oldest waiting jobs come first.

A job that is not admitted has no pods yet: it is estimated with pods of equal size that request its ``minResources``.
An admitted one that lacks pods, which are being created, is not estimated.

The engine is imported when the first job waits: it takes a tenth of the start of a scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import structlog
from msgspec.structs import replace

from volcanopy.api import core, names, quantity
from volcanopy.api.times import format_time
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.raw_kinds import POD_GROUPS, of_object
from volcanopy.kube.metrics import registry as metrics
from volcanopy.kube.threads import in_thread
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.scheduler.state import statuses
from volcanopy.services.scheduler.state.store import Store

if TYPE_CHECKING:
    from volcanopy.whatif.cluster import Cluster
    from volcanopy.whatif.expected import StartEstimate

log = structlog.get_logger(__name__)

PERIOD = 60.0
"""Seconds between two rounds, and between two writes of a group."""
FIRST = 3.0
"""Seconds between two rounds while jobs without an estimate wait."""
_SHARE = 50
"""A round waits so many times as long as the one before it took processor time."""
_SECONDS = 5.0
"""Processor time of a round's search."""
_CYCLES = 500
_WRITES = 100
"""Groups that are written in a round."""
_MOST_PODS = 1000
"""Pods of a job that is not admitted."""


Tables = Sequence[Mapping[str, Any]]
"""The objects of each kind by key."""


@dataclass(frozen=True)
class EstimateQuestion:
    """What a round asks about: how the jobs of the cluster are scheduled."""

    config: SchedulerConfig
    registry: Registry
    now: datetime
    scheduler_names: tuple[str, ...] = (names.SCHEDULER,)
    default_queue: str = names.DEFAULT_QUEUE


@dataclass
class _WrittenEstimate:
    """The estimate that a group has, and when it was written (monotonic seconds)."""

    uid: str
    estimate: StartEstimate
    at: float = field(default_factory=machine.monotonic)


class ClusterCopy:
    """A copy of the cluster for what-if questions; an update costs what changed since the one before."""

    def __init__(self) -> None:
        self._tables: Tables = ()
        self._cluster: Cluster | None = None

    def update(self, tables: Tables, scheduler_names: tuple[str, ...], default_queue: str) -> Cluster:
        """Return the cluster with these objects; they are compared by identity. It is loaded again after an error."""
        from volcanopy.whatif.cluster import Cluster  # noqa: PLC0415

        cluster, before = self._cluster, self._tables
        self._cluster, self._tables = None, tables
        if cluster is None or len(before) != len(tables):
            objects = (item for table in tables for item in table.values())
            cluster = Cluster(objects, scheduler_names, default_queue)
        else:
            for old, new in zip(before, tables, strict=True):
                for key in old.keys() - new.keys():
                    cluster.remove(type(old[key]).__name__, old[key].metadata.key)
                for key, item in new.items():
                    if old.get(key) is not item:
                        cluster.put(item)
            cluster.commit()
        self._cluster = cluster
        return cluster


class StartEstimates:
    """Estimates and writes, one round after the other."""

    def __init__(self, store: Store, client: Client, question: Callable[[], EstimateQuestion]) -> None:
        """``question``: returns the question under the present configuration."""
        self._store, self._client, self._question = store, client, question
        self._copy = ClusterCopy()
        self._written: dict[str, _WrittenEstimate] = {}

    async def run(self) -> None:
        """Estimate for ever."""
        last, cost = -PERIOD, 0.0
        while True:
            await asyncio.sleep(FIRST)
            since = machine.monotonic() - last
            if since < cost * _SHARE:
                continue
            waiting = self.waiting()
            fresh = any(group.metadata.key not in self._written for group in waiting)
            if not waiting or (since < PERIOD and not fresh):
                continue
            last = machine.monotonic()
            try:
                cost = await self.round(waiting)
            except Exception:  # an object or a plugin that makes it fail must not end the scheduler
                log.exception("starts of waiting jobs not estimated")
                cost = PERIOD / _SHARE

    def waiting(self) -> list[core.PodGroup]:
        """Return the groups that wait. An admitted one does not while its pods are being created or bound."""
        return [group for key, group in self._store.groups.items() if waits(group) and self._lacks_resources(key)]

    def _lacks_resources(self, key: str) -> bool:
        phase = self._store.phase_of(key)
        return phase == "Pending" or (phase == "Inqueue" and not self._store.is_incomplete(key))

    async def round(self, waiting: Sequence[core.PodGroup]) -> float:
        """Estimate once and write; returns the seconds of processor time that it took."""
        tables = [dict(watch.objects) for watch in self._store.reflectors]
        estimates, seconds = await in_thread(estimated, self._copy, tables, self._question())
        metrics.START_ESTIMATE_SECONDS.inc(seconds)
        alive = {group.metadata.key for group in waiting}
        self._written = {key: known for key, known in self._written.items() if key in alive}
        due = [group for group in by_age_from_both_ends(waiting) if self._is_due(group, estimates)]
        for group in due[:_WRITES]:
            await self._write(group, estimates[group.metadata.key])
        return seconds

    def _is_due(self, group: core.PodGroup, estimates: dict[str, StartEstimate]) -> bool:
        estimate, known = estimates.get(group.metadata.key), self._written.get(group.metadata.key)
        if estimate is None:
            return False
        if known is None or known.uid != group.metadata.uid:
            return True
        now = machine.monotonic()
        return now - known.at >= PERIOD and differs(known.estimate, estimate, machine.utc_now())

    async def _write(self, group: core.PodGroup, estimate: StartEstimate) -> None:
        meta = group.metadata
        time_of = format_time(estimate.time) if estimate.time is not None else None
        content = {"time": time_of, "basis": estimate.basis or None, "message": estimate.message or None}
        body = {"metadata": {"uid": meta.uid}, "status": {"estimatedStart": content}}
        try:
            await self._client.patch_status(of_object(POD_GROUPS, group.api_version), meta.namespace, meta.name, body)
        except NotFound:
            return
        except KubeError as fault:
            log.warning("estimated start not written", podgroup=meta.key, error=str(fault))
            return
        self._written[meta.key] = _WrittenEstimate(meta.uid, estimate)


def waits(group: core.PodGroup) -> bool:
    """Whether a group has been found to wait."""
    return group.status.phase in {"", "Pending", "Inqueue"} and statuses.unschedulable(group.status) is not None


def by_age_from_both_ends(groups: Iterable[core.PodGroup]) -> list[core.PodGroup]:
    """Return groups in the order newest, oldest, second newest, second oldest and so on."""
    ordered = sorted(
        groups, key=lambda group: (pod_fields.seconds(group.metadata.creation_timestamp), group.metadata.key)
    )
    half = len(ordered) // 2
    pairs = zip_longest(reversed(ordered[half:]), ordered[:half])
    return [group for group in chain.from_iterable(pairs) if group is not None]


def differs(before: StartEstimate, after: StartEstimate, now: datetime) -> bool:
    """Whether an estimate is worth a write: another basis or reason, or another time by half a minute and by a twentieth."""
    if (before.basis, before.message) != (after.basis, after.message) or before.time is None or after.time is None:
        return before != after
    return abs(after.time - before.time) > max(timedelta(seconds=30), (after.time - now) / 20)


def estimated(copy: ClusterCopy, tables: Tables, question: EstimateQuestion) -> tuple[dict[str, StartEstimate], float]:
    """Return the estimated starts by pod group, and the processor time. Runs in a thread."""
    from volcanopy.whatif.engine import Budget, Engine  # noqa: PLC0415
    from volcanopy.whatif.expected import estimated_starts  # noqa: PLC0415

    begin = machine.thread_time()
    cluster = copy.update(tables, question.scheduler_names, question.default_queue)
    with cluster.trial():
        for group in list(cluster.of_kind("PodGroup").values()):
            if not cluster.members.get(group.metadata.key) and waits(group):
                likely = with_likely_alternative(group)
                if likely is not group:
                    cluster.put(likely)
                for pod in expected_pods(likely, question.scheduler_names[0]):
                    cluster.put(pod)
        loaded = machine.thread_time()
        budget = Budget(_CYCLES, lambda: machine.thread_time() - loaded > _SECONDS)
        starts = estimated_starts(Engine(cluster, question.config, question.now, question.registry), budget)
    return starts, machine.thread_time() - begin


def with_likely_alternative(group: core.PodGroup) -> core.PodGroup:
    """Return a group whose alternative is not selected with the one with which it finished first in the last cycle."""
    if not group.spec.alternatives or core.selected_alternative(group) is not None:
        return group
    explanation = group.status.explanation
    name = explanation.numbers.get("alternative", "") if explanation is not None else ""
    likely = next((each for each in group.spec.alternatives if each.name == name), group.spec.alternatives[0])
    spec = replace(group.spec, alternatives=(likely,), min_resources=likely.min_resources)
    return replace(group, spec=spec)


def expected_pods(group: core.PodGroup, scheduler_name: str) -> Iterable[core.Pod]:
    """Yield the pods that a group without pods is expected to have: its minimum, of equal size."""
    spec, meta = group.spec, group.metadata
    roles = [role for role, count in spec.min_task_member.items() for _ in range(count)]
    count = min(max(spec.min_member, 1), _MOST_PODS)
    resources = pod_fields.countable(core.min_resources(group))
    requests = quantity.texts({name: -(-units // count) for name, units in resources.items() if name != "pods"})
    container = core.Container(name="main", resources=core.ResourceRequirements(requests=dict(requests)))
    for number in range(count):
        annotations = {pod_fields.GROUP_KEYS[0]: meta.name}
        if number < len(roles):
            annotations[names.TASK_SPEC] = roles[number]
        yield core.Pod(
            metadata=core.Meta(
                name=f"{meta.name}-expected-{number}",
                namespace=meta.namespace,
                uid=f"{meta.uid}-{number}",
                creation_timestamp=meta.creation_timestamp,
                annotations=annotations,
            ),
            spec=core.PodSpec(scheduler_name=scheduler_name, containers=(container,)),
        )
