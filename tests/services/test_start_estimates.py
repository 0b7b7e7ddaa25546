"""Estimated starts in the scheduler process: what is computed, which groups are written, and how often."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.scheduler.core import builtin
from volcanopy.services.scheduler.start_estimates import (
    Question,
    StartEstimates,
    by_age_from_both_ends,
    differs,
    estimated,
    expected_pods,
    waits,
)
from volcanopy.testing.notation import NOW, config, world
from volcanopy.whatif.expected import EstimatedStart

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


def question(items: list[Any]) -> Question:
    """The question about these objects."""
    return Question(items, RULES, builtin(), NOW)


WORLD = f"""
node n1 cpu=4
queue default
job run {ESTIMATE}=30m phase=Running: 1 x cpu=4 on=n1
job next {ESTIMATE}=10m phase=Inqueue: 1 x cpu=4
job last phase=Inqueue: 1 x cpu=4
"""


def test_the_objects_of_the_scheduler_give_the_estimates() -> None:
    starts, seconds = estimated(question(objects(WORLD)))
    times = {key: ((start.time or NOW) - NOW, start.basis) for key, start in starts.items()}
    half, later = timedelta(minutes=30), timedelta(minutes=40)
    assert times == {"default/next": (half, "estimate"), "default/last": (later, "estimate")}
    assert seconds > 0


def test_a_job_without_pods_is_estimated_by_its_minimum() -> None:
    text = f"node n1 cpu=4\nqueue default\njob run {ESTIMATE}=30m phase=Running: 1 x cpu=4 on=n1\n"
    items = objects(text + "job big phase=Pending minres.cpu=4 min=2: 2 x cpu=2")
    items = [item for item in items if not isinstance(item, core.Pod) or item.metadata.name.startswith("run")]
    starts, _ = estimated(question(items))
    assert starts["default/big"].time == NOW + timedelta(minutes=30)
    (group,) = (item for item in items if isinstance(item, core.PodGroup) and item.metadata.name == "big")
    pods = list(expected_pods(group, names.SCHEDULER))
    assert [pod.spec.containers[0].resources.requests["cpu"] for pod in pods] == ["2", "2"]


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
    before = EstimatedStart(NOW + timedelta(minutes=60), "estimate")
    assert differs(before, EstimatedStart(NOW + timedelta(minutes=minutes), basis), NOW) is expected
    assert differs(before, EstimatedStart(message="job a declares no run time"), NOW)


async def test_a_group_is_written_once_until_its_estimate_changes() -> None:
    written: list[Json] = []

    async def patch_status(_: object, __: str, name: str, body: Json) -> None:
        await asyncio.sleep(0)
        written.append({name: body["status"]["estimatedStart"]})

    items = objects(WORLD)
    watch = SimpleNamespace(objects={str(number): item for number, item in enumerate(items)})
    store = cast("Store", SimpleNamespace(reflectors=[watch]))
    estimates = StartEstimates(
        store, cast("Client", SimpleNamespace(patch_status=patch_status)), lambda items: question(list(items))
    )
    waiting = [item for item in items if isinstance(item, core.PodGroup) and waits(item)]
    await estimates.round(waiting)
    assert written == [
        {"last": {"time": "2030-01-02T00:40:00Z", "basis": "estimate", "message": None}},
        {"next": {"time": "2030-01-02T00:30:00Z", "basis": "estimate", "message": None}},
    ]
    await estimates.round(waiting)
    assert len(written) == 2
