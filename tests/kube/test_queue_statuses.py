"""What the scheduler has worked out of queues is written into their statuses, sparingly."""

from datetime import UTC, datetime

from tests.kube.applier_setup import Rig, applier_rig
from tests.kube.cluster import Cluster
from volcanopy.api.core import QueueUser
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.scheduler.model.plan import SetQueue
from volcanopy.services.scheduler.writers.status_writer import Timing

WHOLE = SetQueue(
    "default",
    {"cpu": "4", "memory": "3Gi", "pods": "2"},
    {"cpu": "1500m", "example.com/gpu": "2"},
    {"cpu": "1"},
    {"cpu": "2500m"},
    {"memory": "123456789"},
    "2.67",
    {"cpu": "-42.512345"},
    {"cpu": "1234.5", "memory": "12345678901234"},
    datetime(2030, 1, 1, 12, 30, 15, 250000, UTC),
    (
        QueueUser(name="ana", share="0.25", fair_share="0.2", credit="-31.5"),
        QueueUser(name="bo", allocated={"cpu": "1500m"}, share="0.15", usage={"cpu": "120.5"}),
    ),
)


async def test_a_queue_status_is_one_write_and_reads_back_equal(cluster: Cluster, rig: Rig) -> None:
    await rig.see()
    await rig.apply(WHOLE)
    assert await rig.applier.finish(5)
    status = (await cluster.client.get(QUEUES, None, "default")).status
    assert status.allocated == WHOLE.allocated
    assert (status.fair_share, status.guaranteed, status.borrowed) == (
        WHOLE.fair_share,
        WHOLE.guaranteed,
        WHOLE.borrowed,
    )
    assert (status.waiting, status.share, status.state) == (WHOLE.waiting, "2.67", "Open")
    assert (status.credit, status.usage) == (WHOLE.credit, WHOLE.usage)
    assert (status.credit_time, status.users) == (WHOLE.credit_time, WHOLE.users)
    assert rig.script.count("patch", "queues") == 1


async def test_outdated_fields_are_removed(cluster: Cluster, rig: Rig) -> None:
    await rig.see()
    await rig.apply(WHOLE)
    assert await rig.applier.finish(5)
    async with applier_rig(cluster) as delayed:
        await delayed.see()
        await delayed.apply(SetQueue("default", {"cpu": "4"}))
        assert await delayed.applier.finish(5)
    status = (await cluster.client.get(QUEUES, None, "default")).status
    assert status.allocated == {"cpu": "4"}
    assert (status.fair_share, status.guaranteed, status.borrowed, status.waiting, status.share) == ({}, {}, {}, {}, "")


async def test_a_cycle_sees_pending_writes_as_written(rig: Rig) -> None:
    await rig.see()
    rig.submit(WHOLE)
    assert rig.store.state.queues["default"].status.share == "2.67"
    assert rig.store.state.queues["default"].status.borrowed == {"cpu": "2500m"}


async def test_changes_caused_by_others_are_written_later(cluster: Cluster) -> None:
    """Another share with equal allocated amounts is delayed; a change of allocated is not, and includes the rest."""
    async with applier_rig(cluster, Timing(settle=0.02, queue_delay=3600.0)) as rig:
        await rig.see()
        await rig.apply(SetQueue("default", {}, {"cpu": "5"}, share="0.00"))
        assert rig.applier.waiting == 1
        await rig.apply(SetQueue("default", {"cpu": "1"}, {"cpu": "5"}, share="0.20"))

        async def shown() -> bool:
            return (await cluster.client.get(QUEUES, None, "default")).status.share == "0.20"

        await cluster.until(shown, QUEUES)
        assert rig.script.count("patch", "queues") == 1


async def test_counts_of_the_queue_controller_are_not_overwritten(cluster: Cluster, rig: Rig) -> None:
    counts = {"pending": 1, "running": 2, "completed": 3, "jobs": 4}
    await cluster.client.patch_status(QUEUES, None, "default", {"status": counts})
    await rig.see()
    await rig.apply(WHOLE)
    assert await rig.applier.finish(5)
    status = (await cluster.client.get(QUEUES, None, "default")).status
    assert (status.pending, status.running, status.completed, status.jobs) == (1, 2, 3, 4)
    assert status.share == "2.67"
