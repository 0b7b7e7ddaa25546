"""Objects that make every scheduling cycle fail are found and excluded; all others are scheduled."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tests.kube.cluster import Cluster, running_cluster
from tests.kube.test_store import added
from tests.services.test_scheduler import POLICY, placed, scheduling, with_actions
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler.isolation import isolate
from volcanopy.services.scheduler.state.statuses import pod_condition
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import world

NOW = datetime(2031, 1, 1, tzinfo=UTC)
WORLD = "queue q1\nqueue q2\n" + "\n".join(
    [f"node n{number} cpu=8" for number in range(4)]
    + [f"job a{number} queue=q1 min=1: 2 x cpu=1" for number in range(10)]
    + [f"job b{number} queue=q2 min=1: 2 x cpu=1" for number in range(10)]
)
MARK = "broken"


def marked(item: Any) -> Any:
    return replace(item, metadata=replace(item.metadata, annotations={**item.metadata.annotations, MARK: "yes"}))


def fails(snapshot: Snapshot) -> bool:
    """Whether something marked takes part, together with a job that has pods and a node."""
    groups = [row for row, group in enumerate(snapshot.jobs.groups) if group is not None]
    if not len(snapshot.nodes) or not groups:
        return False
    known = [snapshot.jobs.groups[row] for row in groups]
    nodes = snapshot.nodes.traits.objects
    pods = [
        pod
        for pod, job in zip(snapshot.tasks.pods, snapshot.tasks.job.tolist(), strict=True)
        if pod is not None and job in groups
    ]
    used = {snapshot.jobs.queue[row] for row in groups}
    queues = [snapshot.queues.objects[row] for row in used if snapshot.queues.objects[row] is not None]
    return any(MARK in item.metadata.annotations for item in (*known, *nodes, *pods, *queues) if item is not None)


async def found_in(names: set[tuple[str, str]]) -> tuple[set[tuple[str, str]], int]:
    """What is excluded when these (kind, name) are marked, and how many attempts it took."""
    store, attempts = Store(), 0
    items = [marked(item) if (type(item).__name__, item.metadata.name) in names else item for item in world(WORLD)]
    store.take(added(*items))

    async def attempt() -> bool:
        nonlocal attempts
        attempts += 1
        return not fails(store.snapshot(NOW))

    assert not await attempt()
    result = await isolate(store.quarantine, attempt, "error")
    assert await attempt()
    assert {(entry.kind, entry.key) for entry in store.quarantine.entries()} == {
        (entry.kind, entry.key) for entry in result
    }
    return {(entry.kind, entry.object.metadata.name) for entry in result}, attempts


@pytest.mark.parametrize("name", ["a0", "b9", "a5"])
async def test_a_single_group_is_found_in_few_attempts(name: str) -> None:
    result, attempts = await found_in({("PodGroup", name)})
    assert result == {("PodGroup", name)}
    assert attempts < 15


async def test_several_groups_are_found() -> None:
    groups = {("PodGroup", "a0"), ("PodGroup", "b3"), ("PodGroup", "b7")}
    assert (await found_in(groups))[0] == groups


async def test_the_job_of_a_bad_pod_is_excluded() -> None:
    assert (await found_in({("Pod", "a4-1")}))[0] == {("PodGroup", "a4")}


async def test_a_bad_node_is_found_instead_of_the_jobs() -> None:
    assert (await found_in({("Node", "n2")}))[0] == {("Node", "n2")}


async def test_a_bad_queue_is_found_instead_of_its_jobs() -> None:
    assert (await found_in({("Queue", "q2")}))[0] == {("Queue", "q2")}


async def test_nothing_is_excluded_when_every_cycle_fails() -> None:
    store = Store()
    store.take(added(*world(WORLD)))

    async def attempt() -> bool:
        return False

    assert await isolate(store.quarantine, attempt, "error") == []
    assert store.quarantine.entries() == []
    assert len(store.snapshot(NOW).task_rows) == 40


class Choking:
    """An action that fails on a group with a certain annotation."""

    name: ClassVar[str] = "choking"
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __call__(self, session: Session, arguments: NoArguments) -> None:
        for group in session.snapshot.jobs.groups:
            if group is not None and MARK in group.metadata.annotations:
                raise ValueError(f"cannot handle {group.metadata.name}")


async def test_a_running_scheduler_excludes_one_group_and_schedules_the_others(tmp_path: Path) -> None:
    """The group gets a condition and an Event; corrected, it is scheduled too."""
    conf = tmp_path / "conf"
    conf.write_text(POLICY % "choking, enqueue, allocate")
    settings = SchedulerSettings(config=conf, dump_dir=tmp_path / "dumps", heartbeat=0.2)
    async with running_cluster() as cluster, scheduling(cluster, settings, with_actions(Choking())):
        await cluster.node("n1")
        await cluster.gang("good", 1, phase="")
        await cluster.until(lambda: placed(cluster, 1))
        await cluster.gang("bad", 1, phase="")
        annotations = {"metadata": {"annotations": {MARK: "yes"}}}
        await cluster.client.patch(POD_GROUPS, "default", "bad", annotations)
        await cluster.until(lambda: _quarantined(cluster, "bad"), POD_GROUPS)
        await cluster.gang("later", 1, phase="")
        await cluster.until(lambda: placed(cluster, 2))
        await cluster.client.patch(POD_GROUPS, "default", "bad", {"metadata": {"annotations": {MARK: None}}})
        await cluster.until(lambda: placed(cluster, 3))


async def test_a_running_scheduler_reports_a_pod_that_cannot_be_counted() -> None:
    async with running_cluster() as cluster:
        await cluster.node("n1")
        await cluster.group("g", 1, "Inqueue")
        await cluster.pod("bad", "g", cpu="9" * 5000)
        await cluster.pod("huge", "g", cpu="8e15")
        async with scheduling(cluster):
            await cluster.gang("good", 1, phase="")
            await cluster.until(lambda: placed(cluster, 1))

            async def reported() -> bool:
                condition = pod_condition(await cluster.get_pod("bad"), "PodScheduled")
                return condition is not None and condition.reason == "Quarantined"

            await cluster.until(reported)


async def _quarantined(cluster: Cluster, name: str) -> bool:
    conditions = (await cluster.get_group(name)).status.conditions
    return any((item.type, item.reason) == ("Unschedulable", "Quarantined") for item in conditions)
