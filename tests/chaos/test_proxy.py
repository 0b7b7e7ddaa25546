"""The proxy of faults: what a client behind it gets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import aiohttp
import pytest
from aiohttp import web

from chaos.proxy import FaultProxy
from volcanopy.kube.client.connection import Connection, Credentials


class Backend:
    """A server that counts requests and streams until told to stop."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs, request.headers.get("Authorization", "")))
        if "watch" not in request.query:
            return web.json_response({"echo": (await request.read()).decode()})
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await self.lines.get():
            await response.write(line)
        return response


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    served, app = Backend(), web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield served
    await runner.cleanup()


@pytest.fixture
async def proxy(backend: Backend) -> AsyncIterator[FaultProxy]:
    connection = Connection(backend.url, Credentials({"Authorization": "Bearer operator"}))
    async with FaultProxy.open(connection, Random(1)) as opened:
        yield opened


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def test_requests_pass_with_the_credentials_of_the_target(
    backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    headers = {"Authorization": "Bearer other"}
    async with session.post(f"{proxy.url}/a%2Fb?c=d%21", data="text", headers=headers) as answer:
        assert await answer.json() == {"echo": "text"}
    assert backend.requests == [("POST", "/a%2Fb?c=d!", "Bearer operator")]


async def test_a_cut_holds_requests_and_watches_until_it_ends(
    backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{proxy.url}/?watch") as watch:
        backend.lines.put_nowait(b"one")
        assert await watch.content.readany() == b"one"
        with proxy.cut():
            backend.lines.put_nowait(b"two")
            reading = asyncio.create_task(watch.content.readany())
            asking = asyncio.create_task(session.get(f"{proxy.url}/x"))
            done, _ = await asyncio.wait((reading, asking), timeout=0.1)
            assert not done
        assert await reading == b"two"
        assert (await asking).status == 200


async def test_a_reset_ends_a_watch_in_the_middle(
    backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{proxy.url}/?watch") as watch:
        backend.lines.put_nowait(b"half")
        assert await watch.content.readany() == b"half"
        assert proxy.reset() == 1
        with pytest.raises((aiohttp.ClientError, OSError)):
            await watch.content.readany()


async def test_a_delay_holds_each_request(proxy: FaultProxy, session: aiohttp.ClientSession) -> None:
    begun = asyncio.get_running_loop().time()
    with proxy.delayed(0.05):
        async with session.get(proxy.url) as answer:
            assert answer.status == 200
    assert asyncio.get_running_loop().time() - begun >= 0.1


@pytest.mark.parametrize("code", [409, 429])
async def test_a_storm_of_rejections_does_not_reach_the_server(
    code: int, backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    with proxy.storm(code, 1.0):
        async with session.get(proxy.url) as answer:
            assert (answer.status, (await answer.json())["code"]) == (code, code)
    assert (backend.requests, proxy.spoiled) == ([], {code: 1})


async def test_half_of_a_storm_of_500_is_carried_out(
    backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession
) -> None:
    with proxy.storm(500, 1.0):
        for _ in range(20):
            async with session.post(proxy.url) as answer:
                assert answer.status == 500
    assert 3 < len(backend.requests) < 17


async def test_a_new_token_is_accepted_alone_and_is_in_the_file_later(
    backend: Backend, proxy: FaultProxy, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def status(token: str) -> int:
        async with session.get(proxy.url, headers={"Authorization": f"Bearer {token}"}) as answer:
            return answer.status

    proxy.token_file = tmp_path / "token"
    proxy.token_file.write_text("old")
    assert await status("old") == 200
    with proxy.token_rotated("new"):
        assert (await status("old"), await status("new"), proxy.token_file.read_text()) == (401, 200, "old")
    assert (await status("new"), proxy.token_file.read_text(), proxy.spoiled) == (200, "new", {401: 1})
    assert {authorization for _, _, authorization in backend.requests} == {"Bearer operator"}
