"""Estimated starts in the scheduler process: what is computed, which groups are written, and how often."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.scheduler.core import builtin
from volcanopy.services.scheduler.start_estimates import (
    ClusterCopy,
    EstimateQuestion,
    StartEstimates,
    by_age_from_both_ends,
    differs,
    estimated,
    expected_pods,
    waits,
)
from volcanopy.services.scheduler.state.store import Store
from volcanopy.whatif.expected import StartEstimate
from volcanopy_testing.notation import NOW, config, world

RULES = config("priority, gang, predicates, proportion", "enqueue, allocate, backfill")
ESTIMATE = f"note.{names.RUNNING_ESTIMATE}"
CONDITION = core.Condition(type="Unschedulable", status="True", reason="NotEnoughResources", message="no")


def objects(text: str) -> list[Any]:
    """The objects of a world, in which the PodGroups of pending jobs have been found to wait."""
    result: list[Any] = []
    for item in world(text):
        if isinstance(item, core.PodGroup) and item.status.phase in {"Pending", "Inqueue"}:
            result.append(replace(item, status=replace(item.status, conditions=(CONDITION,))))
        else:
            result.append(item)
    return result


QUESTION = EstimateQuestion(RULES, builtin(), NOW)


def tables(items: Iterable[Any]) -> list[dict[str, Any]]:
    """These objects by kind and key."""
    result: dict[type[Any], dict[str, Any]] = {core.Pod: {}, core.PodGroup: {}, core.Queue: {}, core.Node: {}}
    for item in items:
        result[type(item)][item.metadata.key] = item
    return list(result.values())


def starts_of(items: Iterable[Any], copy: ClusterCopy | None = None) -> dict[str, StartEstimate]:
    """The estimates for these objects."""
    return estimated(copy or ClusterCopy(), tables(items), QUESTION)[0]


WORLD = f"""
node n1 cpu=4
queue default
job run {ESTIMATE}=30m phase=Running: 1 x cpu=4 on=n1
job next {ESTIMATE}=10m phase=Inqueue: 1 x cpu=4
job last phase=Inqueue: 1 x cpu=4
"""


def test_the_objects_of_the_scheduler_give_the_estimates() -> None:
    starts, seconds = estimated(ClusterCopy(), tables(objects(WORLD)), QUESTION)
    times = {key: ((start.time or NOW) - NOW, start.basis) for key, start in starts.items()}
    half, later = timedelta(minutes=30), timedelta(minutes=40)
    assert times == {"default/next": (half, "estimate"), "default/last": (later, "estimate")}
    assert seconds > 0


def test_a_copy_that_follows_changes_gives_the_estimates_of_a_new_one() -> None:
    """Pods, groups and nodes come and go between the rounds."""
    items, rng, copy = objects(WORLD), Random(1), ClusterCopy()
    more = objects("node n2 cpu=4\njob wide phase=Inqueue: 2 x cpu=3\njob small phase=Inqueue: 1 x cpu=1")
    seen = set()
    for _ in range(12):
        present = [item for item in (*items, *more) if rng.randint(0, 3)]
        changed = [replace(item) if rng.randint(0, 1) else item for item in present]
        starts = starts_of(changed, copy)
        assert starts == starts_of(changed)
        seen.add(str(starts))
    assert len(seen) > 6


def test_a_copy_is_loaded_again_after_an_error() -> None:
    copy, items = ClusterCopy(), objects(WORLD)
    expected = starts_of(items, copy)
    with pytest.raises(AttributeError):
        copy.update([{"x": object()}, {}, {}, {}], (names.SCHEDULER,), "default")
    assert starts_of(items, copy) == expected


def test_a_job_without_pods_is_estimated_by_its_minimum() -> None:
    text = f"node n1 cpu=4\nqueue default\njob run {ESTIMATE}=30m phase=Running: 1 x cpu=4 on=n1\n"
    items = objects(text + "job big phase=Pending minres.cpu=4 min=2: 2 x cpu=2")
    items = [item for item in items if not isinstance(item, core.Pod) or item.metadata.name.startswith("run")]
    assert starts_of(items)["default/big"].time == NOW + timedelta(minutes=30)
    (group,) = (item for item in items if isinstance(item, core.PodGroup) and item.metadata.name == "big")
    pods = list(expected_pods(group, names.SCHEDULER))
    assert [pod.spec.containers[0].resources.requests["cpu"] for pod in pods] == ["2", "2"]


def test_an_admitted_job_whose_pods_are_being_created_does_not_wait() -> None:
    jobs = "job creating min=3 phase=Inqueue: 2 x cpu=4\njob full min=2 phase=Inqueue: 2 x cpu=4\njob pending min=2 phase=Pending: 1 x cpu=4"
    store = Store()
    store.take([Change(ChangeType.ADDED, item) for item in objects(f"queue default\n{jobs}")])
    rounds = StartEstimates(store, cast(Client, None), lambda: QUESTION)
    assert [group.metadata.name for group in rounds.waiting()] == ["full", "pending"]


def test_the_newest_and_the_oldest_jobs_come_first() -> None:
    groups = [
        core.PodGroup(metadata=core.Meta(name=str(number), creation_timestamp=NOW + timedelta(seconds=number)))
        for number in range(5)
    ]
    assert [group.metadata.name for group in by_age_from_both_ends(groups)] == ["4", "0", "3", "1", "2"]
    assert by_age_from_both_ends([]) == []


@pytest.mark.parametrize(
    ("minutes", "basis", "expected"),
    [
        (60, "estimate", False),
        (62, "estimate", False),
        (64, "estimate", True),
        (56, "estimate", True),
        (60, "learnt", True),
    ],
)
def test_small_changes_are_not_written(minutes: int, basis: str, expected: bool) -> None:
    before = StartEstimate(NOW + timedelta(minutes=60), "estimate")
    assert differs(before, StartEstimate(NOW + timedelta(minutes=minutes), basis), NOW) is expected
    assert differs(before, StartEstimate(message="job a declares no run time"), NOW)


async def test_a_group_is_written_once_until_its_estimate_changes() -> None:
    written: list[Json] = []

    async def patch_status(_: object, __: str, name: str, body: Json) -> None:
        await asyncio.sleep(0)
        written.append({name: body["status"]["estimatedStart"]})

    items = objects(WORLD)
    store = cast("Store", SimpleNamespace(reflectors=[SimpleNamespace(objects=table) for table in tables(items)]))
    client = cast("Client", SimpleNamespace(patch_status=patch_status))
    estimates = StartEstimates(store, client, lambda: QUESTION)
    waiting = [item for item in items if isinstance(item, core.PodGroup) and waits(item)]
    await estimates.round(waiting)
    assert written == [
        {"last": {"time": "2030-01-02T00:40:00Z", "basis": "estimate", "message": None}},
        {"next": {"time": "2030-01-02T00:30:00Z", "basis": "estimate", "message": None}},
    ]
    await estimates.round(waiting)
    assert len(written) == 2
