"""The whole scheduler process against the embedded API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.kube.cluster import Cluster, running_cluster
from tests.loop_time import loop_time
from volcanopy.api.config_file import ConfigError
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments
from volcanopy.scheduler.policy.registry import Action, Registry
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler.scheduler_service import run
from volcanopy.services.scheduler.state.statuses import pod_condition
from volcanopy.services.scheduler.writers.status_writer import Timing

QUICK = Timing(settle=0.05, message_delay=0.2, repeat_delay=0.5)
POLICY = """\
actions: "%s"
tiers:
- plugins:
  - name: gang
  - name: proportion
"""


def with_actions(*actions: Action[Any]) -> Registry:
    """Return the built-in plugins and actions, and more actions."""
    return replace(builtin(), actions={**builtin().actions, **{action.name: action for action in actions}})


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        yield running


@asynccontextmanager
async def scheduling(
    cluster: Cluster,
    settings: SchedulerSettings | None = None,
    registry: Registry | None = None,
    timing: Timing = QUICK,
) -> AsyncIterator[asyncio.Event]:
    """A ready scheduler that is stopped at the end."""
    stop, ready = asyncio.Event(), asyncio.Event()
    settings = settings or SchedulerSettings()
    task = asyncio.create_task(run(cluster.connection, settings, stop, ready, registry=registry, timing=timing))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            yield stop
    finally:
        waiting.cancel()
        stop.set()
        await task


async def test_a_gang_is_admitted_placed_and_reported(cluster: Cluster) -> None:
    await cluster.node("n1")
    async with scheduling(cluster):
        await cluster.group("a", 3)
        await cluster.until(lambda: phase(cluster, "a", "Inqueue"), POD_GROUPS)
        for number in range(3):
            await cluster.pod(f"a-{number}", "a")
        await cluster.until(lambda: placed(cluster, 3))
        await cluster.until(lambda: phase(cluster, "a", "Running"), POD_GROUPS)

        async def counted() -> bool:
            return (await cluster.client.get(QUEUES, None, "default")).status.allocated.get("cpu") == "3"

        await cluster.until(counted, QUEUES)
    assert [condition.type for condition in (await cluster.get_group("a")).status.conditions] == ["Scheduled"]


async def test_the_root_and_the_default_queue_are_made_open_and_once(cluster: Cluster) -> None:
    """Two schedulers start at the same moment; neither stumbles over the other's queue."""
    async with scheduling(cluster), scheduling(cluster):
        queues = {queue.metadata.name: queue for queue in (await cluster.client.list(QUEUES)).items}
    assert set(queues) == {"root", "default"}
    assert queues["root"].spec.reclaimable is False
    assert {queue.status.state for queue in queues.values()} == {"Open"}


async def test_an_existing_queue_is_not_changed(cluster: Cluster) -> None:
    await cluster.queue("default", weight=7)
    async with scheduling(cluster):
        assert (await cluster.client.get(QUEUES, None, "default")).spec.weight == 7


async def test_an_unschedulable_gang_has_a_reason_and_runs_within_a_second_of_a_new_node(
    cluster: Cluster,
) -> None:
    await cluster.node("n1", cpu="2")
    await cluster.gang("a", 3, phase="")
    async with scheduling(cluster):
        await cluster.until(lambda: has_pending_message(cluster, "a-2"))
        condition = pod_condition(await cluster.get_pod("a-0"), "PodScheduled")
        assert condition is not None
        assert condition.status == "False"
        assert "covers 2 of 3 pods" in condition.message
        await cluster.until(lambda: has_condition(cluster, "a"), POD_GROUPS)
        (said,) = (await cluster.get_group("a")).status.conditions
        assert (said.type, said.message) == ("Unschedulable", condition.message)
        assert await cluster.where() == {}
        await cluster.node("n2", cpu="2")
        async with loop_time() as elapsed:
            await cluster.until(lambda: placed(cluster, 3))
            assert elapsed() < 1.0


async def test_pods_of_other_schedulers_are_not_bound_but_count_as_allocated(cluster: Cluster) -> None:
    await cluster.node("n1", cpu="2")
    await cluster.pod("theirs", cpu="1", scheduler="default-scheduler")
    await cluster.client.bind("default", "theirs", "n1")
    await cluster.pod("waiting", cpu="1", scheduler="default-scheduler")
    await cluster.gang("a", 1)
    await cluster.gang("b", 1)
    async with scheduling(cluster):
        await cluster.until(lambda: placed(cluster, 1))
        await cluster.until(lambda: has_pending_message(cluster, "b-0"))
    assert await cluster.where() == {"theirs": "n1", "a-0": "n1"}


async def test_two_schedulers_bind_every_pod_once(cluster: Cluster) -> None:
    """There may be two for a moment, when one takes over: the server gives a pod one node, both must live with it."""
    for number in range(4):
        await cluster.node(f"n{number}", cpu="10")
    async with scheduling(cluster), scheduling(cluster):
        for number in range(10):
            await cluster.gang(f"g{number}", 4, phase="")
        await cluster.until(lambda: placed(cluster, 40))
    assert len(await cluster.where()) == 40


async def test_shutdown_finishes_pending_writes(cluster: Cluster) -> None:
    """Counts would be written in an hour; the scheduler is stopped and writes them now."""
    await cluster.node("n1")
    patient = Timing(settle=3600.0, message_delay=3600.0, repeat_delay=3600.0)
    async with scheduling(cluster, timing=patient):
        await cluster.gang("a", 1, phase="")
        await cluster.until(lambda: phase(cluster, "a", "Running"), POD_GROUPS)
    assert (await cluster.client.get(QUEUES, None, "default")).status.allocated["cpu"] == "1"


# Configuration


async def test_an_invalid_configuration_at_startup_ends_with_a_message(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(POLICY % "enqueue, alocate")
    with pytest.raises(
        ConfigError, match=r"scheduler.conf: actions: unknown action 'alocate', did you mean 'allocate'"
    ):
        await run(cluster.connection, SchedulerSettings(config=file), asyncio.Event())


async def test_a_missing_configuration_file_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.conf cannot be read: No such file"):
        await run(cluster.connection, SchedulerSettings(config=tmp_path / "nowhere.conf"), asyncio.Event())


async def test_a_configuration_swapped_by_symlink_takes_effect(cluster: Cluster, tmp_path: Path) -> None:
    """A ConfigMap is mounted as a link to a link; an update makes a new folder and swaps the middle link."""
    for name, actions in (("first", "enqueue"), ("second", "enqueue, allocate")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler.conf").write_text(POLICY % actions)
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "scheduler.conf").symlink_to("..data/scheduler.conf")
    await cluster.node("n1")
    await cluster.gang("a", 1, phase="")
    settings = SchedulerSettings(config=tmp_path / "scheduler.conf", config_period=0.02, heartbeat=0.1)
    async with scheduling(cluster, settings):
        await cluster.until(lambda: phase(cluster, "a", "Inqueue"), POD_GROUPS)
        assert await cluster.where() == {}, "the first configuration does not allocate"
        (tmp_path / "..swap").symlink_to("second")
        (tmp_path / "..swap").rename(tmp_path / "..data")
        await cluster.until(lambda: placed(cluster, 1))


# Plans that violate invariants


class Careless:
    """An action that gives every pending pod the first node, whatever is there."""

    name: ClassVar[str] = "careless"
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __init__(self) -> None:
        self.careful = False

    def __call__(self, session: Session, arguments: NoArguments) -> None:
        if not self.careful:
            snapshot = session.snapshot
            for key, row in snapshot.task_rows.items():
                if not snapshot.tasks.status[row]:
                    session.effects.append(Bind(key, snapshot.nodes.names[0], "default/a"))


class Failing:
    """An action with a bug."""

    name: ClassVar[str] = "failing"
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __call__(self, session: Session, arguments: NoArguments) -> None:
        raise RuntimeError("a bug")


async def first_report(folder: Path) -> dict[str, Any]:
    """The first report, as soon as the file exists."""
    async with asyncio.timeout(60):
        while not (reports := _reports(folder)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return reports[0]


def _reports(folder: Path) -> list[dict[str, Any]]:
    """Both files of a dump are complete once the last of them is no longer empty."""
    return [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.plan.json")) if file.stat().st_size]


async def test_an_invalid_plan_is_dumped_not_applied_and_scheduling_continues(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.node("n1", cpu="2")
    await cluster.gang("a", 3)
    careless = Careless()
    (tmp_path / "conf").write_text(POLICY % "enqueue, careless, allocate")
    settings = SchedulerSettings(config=tmp_path / "conf", dump_dir=tmp_path / "dumps", heartbeat=0.2)
    async with scheduling(cluster, settings, with_actions(careless)):
        report = await first_report(tmp_path / "dumps")
        assert report["problems"][0] == "node n1 is overcommitted: 3 of 2 cpu"
        assert len([effect for effect in report["plan"]["effects"] if effect["effect"] == "Bind"]) == 3
        assert await cluster.where() == {}
        careless.careful = True
        await cluster.node("n2", cpu="2")
        await cluster.until(lambda: placed(cluster, 3))


async def test_a_failing_plugin_causes_a_dump_and_the_process_continues(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.node("n1")
    await cluster.gang("a", 1)
    conf = tmp_path / "conf"
    conf.write_text(POLICY % "failing")
    settings = SchedulerSettings(config=conf, config_period=0.02, dump_dir=tmp_path / "dumps", heartbeat=0.1)
    async with scheduling(cluster, settings, with_actions(Failing())):
        report = await first_report(tmp_path / "dumps")
        assert report["problems"] == ["RuntimeError: a bug"]
        conf.write_text(POLICY % "enqueue, allocate")
        await cluster.until(lambda: placed(cluster, 1))


async def has_pending_message(cluster: Cluster, pod: str) -> bool:
    return pod_condition(await cluster.get_pod(pod), "PodScheduled") is not None


async def has_condition(cluster: Cluster, group: str) -> bool:
    return bool((await cluster.get_group(group)).status.conditions)


async def phase(cluster: Cluster, group: str, wanted: str) -> bool:
    return (await cluster.get_group(group)).status.phase == wanted


async def placed(cluster: Cluster, count: int) -> bool:
    listing = await cluster.client.list(PODS, "default")
    return sum(bool(pod.spec.node_name) for pod in listing.items if pod.spec.scheduler_name == "volcanopy") >= count
