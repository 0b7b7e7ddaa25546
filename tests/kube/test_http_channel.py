"""The connections of the client: answers in any form, and which requests may have arrived."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kube.kubeconfigs import Authority
from volcanopy.kube.client.http_channel import Channels, NotConnectedError

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Script:
    """A server that answers each request with the next pieces; it closes the connection after an empty one."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.answers = list(answers)
        self.connections = self.requests = 0
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                self.asked.set()
                for piece in self.answers.pop(0):
                    if not piece:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def channels(script: Script, limit: int = 2, clock: Callable[[], float] = lambda: 0.0) -> AsyncIterator[Channels]:
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0) as server:
        made = Channels(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None, None, limit, clock)
        yield made
        made.close()


async def body(made: Channels) -> bytes:
    response = await made.request(REQUEST)
    assert response is not None
    return response.body


@pytest.mark.parametrize(
    "pieces",
    [
        [OK],
        [OK[:9], OK[9:30], OK[30:]],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n", b"1\r\nk\r\n0\r\n\r\n"],
        [b"HTTP/1.1 103 Early Hints\r\n\r\n", OK],
    ],
)
async def test_an_answer_in_any_form_is_read_whole_and_the_connection_is_used_again(pieces: list[bytes]) -> None:
    script = Script(pieces, [OK])
    async with channels(script) as made:
        assert (await body(made), await body(made)) == (b"ok", b"ok")
    assert script.connections == 1


@pytest.mark.parametrize(
    "pieces",
    [[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"], [b"HTTP/1.0 200 OK\r\n\r\nok", b""]],
)
async def test_a_connection_that_the_server_closes_is_not_used_again(pieces: list[bytes]) -> None:
    script = Script(pieces, [OK])
    async with channels(script) as made:
        assert (await body(made), await body(made)) == (b"ok", b"ok")
    assert script.connections == 2


async def test_headers_that_the_client_uses_are_kept() -> None:
    head = b'HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nWarning: 299 - "old"\r\nContent-Length: 0\r\n\r\n'
    async with channels(Script([head])) as made:
        assert await made.request(REQUEST) == (429, b"", "3", ('299 - "old"',))


@pytest.mark.parametrize("pieces", [[b""], [OK[:-1], b""], [b"no HTTP\r\n\r\n"]])
async def test_a_connection_that_ends_before_the_answer_leaves_it_open_whether_the_request_arrived(
    pieces: list[bytes],
) -> None:
    async with channels(Script(pieces, [OK])) as made:
        with pytest.raises(OSError) as fault:  # noqa: PT011
            await made.request(REQUEST)
        assert not isinstance(fault.value, NotConnectedError)
        assert await body(made) == b"ok"


async def test_without_a_server_nothing_is_sent() -> None:
    async with channels(Script()) as made:
        pass
    with pytest.raises(NotConnectedError):
        await made.request(REQUEST)


async def test_nothing_is_written_while_it_is_not_allowed() -> None:
    script = Script([OK])
    async with channels(script) as made:
        assert await made.request(REQUEST, lambda: False) is None
        assert script.requests == 0
        assert await body(made) == b"ok"
    assert script.connections == 1


async def test_a_cancelled_request_ends_its_connection_so_that_its_answer_is_not_the_next_ones() -> None:
    script = Script([], [OK])
    async with channels(script, limit=1) as made:
        waiting = asyncio.create_task(made.request(REQUEST))
        await script.asked.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await body(made) == b"ok"
    assert script.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    time = 0.0
    script = Script([OK], [OK], [OK])
    async with channels(script, clock=lambda: time) as made:
        await body(made)
        time = 59.0
        await body(made)
        time = 120.0
        await body(made)
    assert script.connections == 2


@pytest.mark.parametrize("steps", range(24))
async def test_a_request_cancelled_while_it_connects_by_tls_leaves_no_connection_behind(
    steps: int, tmp_path: Path
) -> None:
    """A socket closed beside its transport leaves its number to the next connection, which then fails."""
    script = Script()
    async with tls_server(script, tmp_path) as (url, trusted):
        made = Channels(url, trusted, "server.test", 2, lambda: 0.0)
        cancelled = asyncio.create_task(made.request(REQUEST))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        script.answers = [[OK]]
        assert await body(made) == b"ok"
        made.close()


@asynccontextmanager
async def tls_server(script: Script, folder: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Serve the script by TLS; yields the URL, and a context that trusts the server."""
    authority = Authority()
    certificate, key = authority.issue("server.test")
    (folder / "server.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=context) as server:
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", trusted
