"""The embedded API server rejects the pods that a real one rejects, at the same fields."""

import asyncio
import re
from typing import Any

import pytest

from contract.objects import PODS
from contract.rejected_pods import REJECTED
from contract.servers import Server, Step
from embedded_apiserver.server import ApiServer
from server_certificate import self_signed

LEAST = 200
OBJECT = re.compile(r"\{.*\}")
"""An object in a message, which the real server writes with the names of its own fields."""


async def answers(server: Server) -> dict[str, tuple[Any, ...]]:
    """Code, reason, and the causes by case: reason, field, and the message without the value."""
    namespace = "contract-rejected"
    await server.ask(Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}), "")
    slots = asyncio.Semaphore(16)

    async def answer(body: Any) -> tuple[Any, ...]:
        async with slots:
            response = await server.ask(Step("POST", f"{PODS}?dryRun=All", body), namespace)
        causes = (response.body.get("details") or {}).get("causes") or ()
        fields = sorted((cause["field"], cause["reason"], OBJECT.sub("", cause["message"])) for cause in causes)
        return response.code, response.body.get("reason"), fields

    return dict(zip(REJECTED, await asyncio.gather(*map(answer, REJECTED.values())), strict=True))


@pytest.mark.real
async def test_both_servers_reject_the_same_pods_at_the_same_fields(pair: tuple[Server, Server]) -> None:
    real, embedded = pair
    expected, got = await answers(real), await answers(embedded)
    assert got == expected
    assert len(expected) >= LEAST
    assert {answer[:2] for answer in expected.values()} == {(422, "Invalid")}


async def test_the_embedded_server_rejects_each_of_these_pods() -> None:
    server = await ApiServer.start(tls=self_signed())
    client = Server("embedded", server.url, server.token, server.ca_pem)
    got = await answers(client)
    await client.close()
    await server.stop()
    assert {case for case, answer in got.items() if answer[:2] != (422, "Invalid")} == set()
