"""Clients that are not meant to reach an embedded server: web pages of other sites, and bodies that grow."""

import asyncio
import http.client
import time
from urllib.parse import urlsplit

import pytest

from embedded_apiserver.server import ApiServer
from embedded_apiserver.wire.yaml_budget import MAX_DEPTH, YamlBudgetError, check_budget

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


def ask(server: ApiServer, headers: dict[str, str], body: str | None = None) -> int:
    """Send a request with these headers, as they are; returns the HTTP code."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        method = "GET" if body is None else "POST"
        connection.putrequest(method, "/api/v1/namespaces/default/configmaps", skip_host=True)
        for name, value in {"Host": address.netloc, **headers}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]:1234"}, 200),
        ({"Host": "kube.localhost"}, 200),
        ({"Host": "evil.example.com"}, 403),
        ({"Host": "localhost.example.com"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
async def test_without_a_token_only_this_machine_is_answered(headers: dict[str, str], expected: int) -> None:
    server = await ApiServer.start()
    try:
        assert await asyncio.to_thread(ask, server, headers) == expected
        posted = {**headers, "Content-Type": "text/plain"}
        assert (await asyncio.to_thread(ask, server, posted, "{}") == 403) is (expected == 403)
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "body", [BOMB, "[" * 100_000, "- " * 100_000, "{a: " * 5_000, "\n".join(" " * n + "a:" for n in range(2_000))]
)
async def test_a_body_that_grows_is_rejected_at_once(body: str) -> None:
    server = await ApiServer.start()
    try:
        began = time.process_time()
        for form in ("application/yaml", "application/json"):
            assert await asyncio.to_thread(ask, server, {"Content-Type": form}, body) == 400
        assert time.process_time() - began < 2.0
        assert await asyncio.to_thread(ask, server, {}) == 200
    finally:
        await server.stop()


def test_texts_within_the_budget_pass() -> None:
    check_budget("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    check_budget("a: &x [1, 2]\nb: [*x, *x]\n---\nb: &x 1\nc: *x\n")
    with pytest.raises(YamlBudgetError, match=f"more than {MAX_DEPTH} levels of nesting"):
        check_budget("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
