"""Deletion of owned objects: what counts as done."""

import pytest

from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy.services.controllers.owned_objects import delete_same

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
