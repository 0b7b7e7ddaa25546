"""Writes of owned objects: what counts as done, and how many are in flight."""

import asyncio

import pytest

from volcanopy.kube.client.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy.kube.writes.write_slots import WriteSlots
from volcanopy.services.controllers.owned_objects import (
    NameTakenError,
    TerminatingError,
    all_of,
    create_owned,
    delete_same,
)

OF_UID = "Precondition failed: UID in precondition: a, UID in object meta: b"
OF_RECORD = "the UID in the precondition (a) does not match the UID in record (b)"


class Server:
    """Answers every deletion with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def delete(self, *_: object, **__: object) -> None:
        raise self.error


async def deleted(error: Exception) -> None:
    await delete_same(Server(error), PODS, "default", "pod", "a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [NotFound(404, "NotFound", "gone"), Conflict(409, "Conflict", OF_UID), Conflict(409, "Conflict", OF_RECORD)],
)
async def test_an_object_that_is_gone_or_replaced_is_deleted(error: Exception) -> None:
    await deleted(error)


async def test_a_conflict_for_another_reason_is_no_deletion() -> None:
    with pytest.raises(Conflict):
        await deleted(Conflict(409, "Conflict", "the server is busy with this object"))


class Taken:
    """A server that has an object of another owner."""

    def __init__(self, **metadata: str) -> None:
        self.metadata = metadata

    async def create(self, *_: object) -> None:
        raise AlreadyExists(409, "AlreadyExists", "exists")

    async def get(self, *_: object) -> dict[str, object]:
        return {"metadata": self.metadata}


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({}, NameTakenError, "Pod p exists and does not belong to this job: delete it"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, TerminatingError, "Pod p of an earlier job is being deleted"),
    ],
)
async def test_a_name_is_taken_unless_its_object_is_being_deleted(
    metadata: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await create_owned(Taken(**metadata), PODS, "default", {"metadata": {"name": "p"}}, lambda _: False)  # type: ignore[arg-type]


async def test_the_writes_for_one_object_leave_three_quarters_of_the_slots_to_others() -> None:
    """Of a job of many pods, so that a job of one pod does not wait for them."""
    slots, in_flight, most = WriteSlots(8), 0, 0

    async def write(_: int) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0)
        in_flight -= 1

    assert await all_of(slots, "large", write, range(50), lambda: None) is None
    assert most == 2


async def test_as_many_tasks_write_at_once_as_there_are_effects() -> None:
    tasks: list[int] = []

    async def write(_: str) -> None:
        tasks.append(len(asyncio.all_tasks()))

    before = len(asyncio.all_tasks())
    assert await all_of(WriteSlots(48), "ns", write, ["a", "b"], lambda: None) is None
    assert tasks[0] == before + 2
