"""A Command needs the right to change its target, or the office of an administrator of the queue."""

from typing import Any, cast

import msgspec
import pytest

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request
from volcanopy.admission.review import validate
from volcanopy.api.core import Queue
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import NoAnswer
from volcanopy.services.admission.access_reviews import may_change_target
from volcanopy.services.admission.admission_service import ReviewHandlers

QUEUES = {
    name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)
    for name, spec in {"root": {}, "plain": {}, "led": {"administrators": {"users": ["bob"]}}}.items()
}


def command(kind: str, name: str, action: str = "CloseQueue", user: str = "eve") -> dict[str, Any]:
    """The review of a Command."""
    made = {
        "apiVersion": "bus.volcanopy.io/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c", "namespace": "team"},
        "action": action,
        "target": {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u"},
    }
    return {
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": "bus.volcanopy.io", "version": "v1alpha1", "kind": "Command"},
            "namespace": "team",
            "name": "c",
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": made,
        }
    }


def allowed(review: dict[str, Any], right: bool | None) -> bool:
    answer = validate(review, Context(queues=QUEUES, may_change_target=right))["response"]
    if not answer["allowed"]:
        assert "may not" in answer["status"]["message"]
    return bool(answer["allowed"])


@pytest.mark.parametrize("right", [True, False])
def test_a_queue_without_administrators_is_closed_by_users_that_may_update_it(right: bool) -> None:
    assert allowed(command("Queue", "plain"), right) is right


@pytest.mark.parametrize(("user", "expected"), [("bob", True), ("eve", False)])
def test_a_queue_with_administrators_is_closed_by_them_only(user: str, expected: bool) -> None:
    for right in (True, False):
        assert allowed(command("Queue", "led", user=user), right) is expected


@pytest.mark.parametrize("right", [True, False])
def test_a_job_is_commanded_by_users_that_may_update_it(right: bool) -> None:
    assert allowed(command("BatchJob", "j", "AbortJob"), right) is right


class ApiServer:
    """Answers access reviews, and keeps what it was asked."""

    def __init__(self, answer: bool | Exception) -> None:
        self.answer, self.asked = answer, list[dict[str, Any]]()

    async def create(self, kind: Any, namespace: str | None, body: dict[str, Any], deadline: float) -> dict[str, Any]:
        self.asked.append(body["spec"])
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"status": {"allowed": self.answer}}


@pytest.mark.parametrize("answer", [True, False])
async def test_the_api_server_is_asked_about_the_user_and_the_target(answer: bool) -> None:
    server = ApiServer(answer)
    request = Request.of(command("Queue", "plain"))
    assert request is not None
    assert await may_change_target(server, request) is answer  # type: ignore[arg-type]
    attributes = {"verb": "update", "group": "scheduling.volcanopy.io", "resource": "queues", "name": "plain"}
    assert server.asked == [{"user": "eve", "groups": ["system:authenticated"], "resourceAttributes": attributes}]
    request = Request.of(command("BatchJob", "j", "AbortJob"))
    assert request is not None
    await may_change_target(server, request)  # type: ignore[arg-type]
    assert server.asked[1]["resourceAttributes"]["namespace"] == "team"


class Parts:
    """The other parts of the handlers: a Command is no change of a queue, and has no pods to try."""

    is_complete = True

    def context(self) -> Context:
        return Context(queues=QUEUES)


UNANSWERED = ApiServer(NoAnswer("url", "timed out", maybe_applied=False))


async def verdict(body: dict[str, Any], server: ApiServer = UNANSWERED) -> dict[str, Any]:
    """The response of the service to a Command."""
    parts: Any = Parts()
    handlers = ReviewHandlers(parts, parts, fail_closed=False, apis=ApiViews(cast(Client, server)))
    return dict((await handlers.validating(body))["response"])


async def test_without_an_answer_a_command_is_to_be_sent_again() -> None:
    status = (await verdict(command("Queue", "plain")))["status"]
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
    assert "cannot be checked now, try again: " in status["message"]
    assert "may not" not in status["message"]


async def test_without_an_answer_a_command_is_judged_if_the_right_does_not_matter() -> None:
    assert (await verdict(command("Queue", "led", user="bob")))["allowed"]
    assert (await verdict(command("Queue", "led", user="eve")))["status"]["code"] == 422


@pytest.mark.parametrize("right", [True, False])
async def test_the_answer_of_the_api_server_decides(right: bool) -> None:
    assert (await verdict(command("Queue", "plain"), ApiServer(right)))["allowed"] is right
