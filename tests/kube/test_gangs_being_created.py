"""The condition of a gang whose pods are being created, in virtual time."""

import asyncio
from typing import Any, cast

import pytest

from tests.kube.applier_setup import now, set_pod_group
from tests.kube.elections import run_virtual, virtual_loop
from volcanopy.api import core
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.scheduler.model.plan import Explain, Plan
from volcanopy.services.scheduler.state.store import Store
from volcanopy.services.scheduler.writers.applier import Applier
from volcanopy.services.scheduler.writers.status_writer import Timing


class Recording:
    """A client that records when which statuses are written."""

    def __init__(self, group: core.PodGroup) -> None:
        self.group = group
        self.writes: list[tuple[float, Json]] = []

    async def patch_status(self, _: Kind[Any], __: str, ___: str, patch: Json) -> core.PodGroup:
        self.writes.append((round(virtual_loop().time(), 1), patch["status"]))
        return self.group


async def messages(seconds_between: float, messages: int) -> list[float]:
    """Report more and more created pods, and return when the condition was written."""
    metadata = core.Meta(name="a", namespace="default", uid="u", resource_version="1")
    group = core.PodGroup(metadata=metadata, status=core.PodGroupStatus(phase="Inqueue"))
    store, client = Store(), Recording(group)
    store.take([Change(ChangeType.ADDED, group)])
    recorder = EventRecorder(cast("Client", client), "volcanopy")
    timing = Timing(settle=1.0, message_delay=5.0, repeat_delay=30.0)
    async with Applier(cast("Client", client), store, recorder, timing=timing) as applier:
        for number in range(1, messages + 1):
            message = f"{number}/20 required pods created"
            plan = Plan((set_pod_group("Inqueue", message), Explain("default/a", "gang", message)), session="s")
            store.assume(plan, now())
            applier.submit(plan)
            await asyncio.sleep(seconds_between)
        await asyncio.sleep(40.0)
        assert await applier.finish(30.0)
    return [at for at, status in client.writes if "conditions" in status]


@pytest.mark.parametrize(
    ("seconds_between", "number", "written"),
    [
        (2.0, 1, [5.0]),
        (2.0, 5, [2.0 * 4 + 5.0]),
        (3.0, 19, [30.0]),
    ],
    ids=["no further pod", "pods created one after another", "after half a minute"],
)
def test_a_gang_is_unschedulable_five_seconds_after_its_last_pod_was_created(
    seconds_between: float, number: int, written: list[float]
) -> None:
    first, *_ = run_virtual(messages(seconds_between, number))
    assert [first] == pytest.approx(written, abs=0.2)
