"""An applier on a cluster whose requests are counted and fail as the test specifies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.kube.cluster import Cluster
from tests.kube.flaky_client import FlakyClient, Script
from volcanopy.kube.cache.followed_kinds import NODES, POD_GROUPS, PODS, QUEUES
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.scheduler.model.plan import Bind, Effect, GroupCondition, Plan, SetPodGroup
from volcanopy.services.scheduler.state.statuses import pod_condition
from volcanopy.services.scheduler.state.store import Store
from volcanopy.services.scheduler.writers.applier import Applied, Applier
from volcanopy.services.scheduler.writers.status_writer import Timing

PATIENT = Timing(settle=3600.0, message_delay=3600.0, repeat_delay=3600.0)
"""What may wait, waits for the end of the test, or for `finish`."""


def now() -> datetime:
    return datetime.now(UTC)


class Rig:
    """An applier at work. The store sees of the cluster only what `see` shows it: a watch that lags as long as we like."""

    def __init__(self, cluster: Cluster, client: FlakyClient, store: Store, applier: Applier) -> None:
        self.cluster, self.script, self.store, self.applier = cluster, client.script, store, applier
        self.recorder: EventRecorder
        self.session_number = 0

    async def see(self) -> None:
        changes: list[Change[Any]] = []
        kinds: tuple[Kind[Any], ...] = (NODES, QUEUES, POD_GROUPS, PODS)
        for kind in kinds:
            listing = await self.cluster.client.list(kind)
            changes += [Change(ChangeType.MODIFIED, obj) for obj in listing.items]
            there = {obj.metadata.key for obj in listing.items}
            if kind is PODS:
                gone = [pod for key, pod in self.store.pods.items() if key not in there]
                changes += [Change(ChangeType.DELETED, pod) for pod in gone]
        self.store.take(changes)

    def submit(self, *effects: Effect) -> "asyncio.Task[Applied]":
        self.session_number += 1
        plan = Plan(effects, session=f"session-{self.session_number}")
        self.store.assume(plan, now())
        return self.applier.submit(plan)

    async def apply(self, *effects: Effect) -> Applied:
        return await self.submit(*effects)

    async def condition(self, pod: str, kind: str = "PodScheduled") -> tuple[str, str, str] | None:
        result = pod_condition(await self.cluster.get_pod(pod), kind)
        return None if result is None else (result.status, result.reason, result.message)


@asynccontextmanager
async def applier_rig(cluster: Cluster, timing: Timing = PATIENT, *, pod_events: bool = False) -> AsyncIterator[Rig]:
    client = FlakyClient(cluster.connection)
    client.script = Script()
    store = Store()
    async with (
        client,
        EventRecorder(client, "volcanopy") as recorder,
        Applier(client, store, recorder, timing=timing, pod_events=pod_events) as applier,
    ):
        rig = Rig(cluster, client, store, applier)
        rig.recorder = recorder
        yield rig


def bind(pod: str, node: str = "n1", group: str = "default/a", **annotations: str) -> Bind:
    return Bind(f"default/{pod}", node, group, annotations)


def set_pod_group(phase: str, message: str = "", running: int = 0, group: str = "a") -> SetPodGroup:
    condition = GroupCondition("Unschedulable", "NotEnoughResources", message) if message else None
    return SetPodGroup(f"default/{group}", phase, condition, running)
