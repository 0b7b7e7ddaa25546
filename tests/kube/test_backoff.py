"""Requests that are repeated until the server answers."""

import asyncio

import pytest

from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.errors import KubeError, NoAnswer, NotFound


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return

    monkeypatch.setattr(asyncio, "sleep", at_once)


async def test_a_request_is_repeated_until_the_server_answers() -> None:
    outages: list[KubeError] = [NoAnswer("http://x", "connection refused", maybe_applied=True) for _ in range(20)]

    async def call() -> str:
        if outages:
            raise outages.pop()
        return "pod"

    assert await answered(call) == "pod"
    assert not outages


async def test_a_refusal_is_an_answer() -> None:
    async def call() -> str:
        raise NotFound(404, "NotFound", "no such pod")

    with pytest.raises(NotFound):
        await answered(call)
