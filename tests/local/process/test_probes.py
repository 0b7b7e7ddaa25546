"""Failed probes have the words of a kubelet."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from volcanopy_local.process.probes import Reactions, failure, watch_all

ADDRESS = "127.0.0.1"
CONTAINER = {"name": "main", "ports": [{"name": "web", "containerPort": 1}]}


async def execute(command: list[str], timeout: float) -> tuple[int, str]:
    """What commands of these tests do."""
    if command == ["slow"]:
        raise TimeoutError
    if command == ["missing"]:
        raise OSError('exec: "missing": executable file not found in $PATH')
    return (0, "") if command == ["true"] else (1, "not yet\n")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server that answers `/ok` with 200, `/away` with 302, anything else with 503."""
    codes = {b"/ok": b"200 OK", b"/away": b"302 Found"}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n")
        code = codes.get(request.split()[1], b"503 Unavailable")
        writer.write(b"HTTP/1.1 " + code + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, ADDRESS, 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true", None),
        ("false", "failed: not yet"),
        ("slow", 'failed: command timed out: "slow" timed out after 2s'),
        ("missing", 'errored: exec: "missing": executable file not found in $PATH'),
    ],
)
async def test_a_command_fails_with_its_output(command: str, message: str | None) -> None:
    probe = {"exec": {"command": [command]}, "timeoutSeconds": 2}
    assert await failure(probe, CONTAINER, ADDRESS, execute) == message


async def test_a_request_fails_with_its_status_or_its_connection(port: int) -> None:
    async def get(path: str, at: int = port) -> str | None:
        probe = {"httpGet": {"path": path, "port": at}, "timeoutSeconds": 30}
        return await failure(probe, CONTAINER, ADDRESS, execute)

    assert [await get("/ok"), await get("/away")] == [None, None]
    assert await get("/") == "failed: HTTP probe failed with statuscode: 503"
    refused = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert await get("/ok", 1) == f'failed: Get "http://127.0.0.1:1/ok": {refused}'


async def test_a_port_is_open_or_refuses_the_connection(port: int) -> None:
    async def connect(at: int | str) -> str | None:
        return await failure({"tcpSocket": {"port": at}, "timeoutSeconds": 30}, CONTAINER, ADDRESS, execute)

    assert await connect(port) is None
    assert await connect("web") == "failed: dial tcp 127.0.0.1:1: connect: connection refused"
    assert await connect("metrics") == "errored: couldn't find port metrics in container main"


async def test_a_container_whose_startup_probe_fails_is_restarted_and_its_other_probes_are_not_asked() -> None:
    reported: list[str] = []

    async def on(text: str) -> None:
        reported.append(text)

    reactions = Reactions(
        lambda: on("started"), lambda ready: on(f"ready {ready}"), lambda kind: on(f"restart: {kind}"), reported.append
    )
    probe = {"exec": {"command": ["false"]}, "failureThreshold": 1}
    container = {**CONTAINER, "startupProbe": probe, "livenessProbe": probe}
    await watch_all(container, ADDRESS, execute, reactions)
    assert reported == ["Startup probe failed: not yet", "restart: startup"]
