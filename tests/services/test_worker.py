"""A worker retries what failed, and reports it to the user when a retry does not help."""

from datetime import UTC, datetime

import pytest

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import Conflict, Forbidden, StatusCause, StatusDetails
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.owned_objects import TerminatingError
from volcanopy.services.controllers.worker import Worker


class FailingWorker(Worker):
    """Each reconcile of its one key fails with the error; ``subjects`` counts the events about it."""

    def __init__(self, error: Exception) -> None:
        client = Client(Connection("http://127.0.0.1:9"))
        super().__init__(client, EventRecorder(client, "test"), lambda: datetime.now(UTC))
        self._error, self.subjects = error, 0

    def exists(self, key: str) -> bool:
        return True

    def subject(self, key: str) -> ObjectReference | None:
        self.subjects += 1
        return None

    async def reconcile(self, key: str) -> datetime | None:
        raise self._error


async def reports_of(error: Exception, failures: int) -> list[int]:
    """Return how many events each of the failures has led to."""
    worker = FailingWorker(error)
    counts = []
    for _ in range(failures):
        before = worker.subjects
        await worker._reconcile("default/a")
        counts.append(worker.subjects - before)
        worker.queue.add("default/a")
    worker.queue.forget("default/a")
    return counts


async def test_an_error_is_reported_at_once() -> None:
    assert await reports_of(Forbidden(403, "Forbidden", "not permitted"), 2) == [1, 1]


@pytest.mark.parametrize(
    "error",
    [
        Conflict(409, "Conflict", "the object has been modified"),
        TerminatingError("Pod a of an earlier job is being deleted"),
    ],
    ids=["a conflict", "an object of an earlier owner that terminates"],
)
async def test_what_usually_ends_soon_is_reported_only_if_it_lasts(error: Exception) -> None:
    first, *others = await reports_of(error, 8)
    assert first == 0
    assert others[-1] == 1
    assert others == sorted(others)


async def test_a_namespace_that_is_being_deleted_is_no_error() -> None:
    cause = StatusCause(reason="NamespaceTerminating", message="namespace default is being terminated")
    assert await reports_of(Forbidden(403, "Forbidden", "forbidden", StatusDetails(causes=[cause])), 2) == [0, 0]
