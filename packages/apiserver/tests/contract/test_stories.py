"""The embedded API server answers as the real one does."""

import itertools

import pytest

from contract.cases import STORIES
from contract.servers import Server, Step, comparable

pytestmark = pytest.mark.real
_NUMBERS = itertools.count(1)


@pytest.mark.parametrize("title", STORIES)
async def test_both_servers_give_the_same_responses(title: str, pair: tuple[Server, Server]) -> None:
    """Every step's code, reason, message, warnings and object are the same on both."""
    real, embedded = pair
    namespace = f"contract-{next(_NUMBERS)}"
    for server in pair:
        await server.ask(Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}), "")
    for step in STORIES[title]:
        if step.method == "DELETE" and "?" not in step.path:
            await real.cached(step.path, namespace)
        expected = comparable(await real.settled(step, namespace), step)
        got = comparable(await embedded.settled(step, namespace), step)
        assert got == expected, f"{step.method} {step.path} {step.body}"
        if step.code:
            assert got["code"] == step.code
    for server in pair:
        await server.ask(Step("DELETE", f"/api/v1/namespaces/{namespace}"), "")
