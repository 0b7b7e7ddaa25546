"""HTTP/1.1 at the level of bytes: what clients send that a JSON client of ours never would."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from embedded_apiserver import connections
from embedded_apiserver.connections import BODY_LIMIT, Answer, Listener, Request, Response


class Place:
    """A listener whose handler records requests; it answers `/held` only when it is released."""

    def __init__(self) -> None:
        self.listener = Listener(self.answer)
        self.port = 0
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.arrived = asyncio.Event()

    async def answer(self, request: Request) -> Answer:
        self.arrived.set()
        if request.target == "/held":
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.target == "/stream":
            stream = request.stream("text/plain")
            for piece in (b"one", b"", b"two"):
                await stream.write(piece)
            stream.end()
            return stream
        if request.target == "/flood":
            stream = request.stream("text/plain")
            for _ in range(64):
                await stream.write(b"x" * 1_000_000)
            stream.end()
            return stream
        if request.target == "/large":
            return Response(b"x" * 16_000_000, content_type="text/plain")
        shown = f"{request.method} {request.target} {len(request.body)} {request.body[:20].decode()}"
        return Response(shown.encode(), content_type="text/plain")

    async def talk(self, sent: bytes) -> bytes:
        """Everything that comes back on one connection until the server closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        result = await reader.read()
        writer.close()
        return result


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """A listener on a free port."""
    made = Place()
    made.port = await made.listener.start("127.0.0.1", 0, None)
    yield made
    await made.listener.stop(0.1)


def bodies(answers: bytes) -> list[bytes]:
    """The bodies of answers with a length, in their order."""
    result = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        result.append(answers[:length])
        answers = answers[length:]
    return result


LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


async def test_pipelined_requests_are_answered_in_order(place: Place) -> None:
    sent = b"".join(b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab" % number for number in range(100))
    answers = bodies(await place.talk(sent + LAST))
    assert answers == [*(b"POST /%d 2 ab" % number for number in range(100)), b"GET /last 0 "]


async def test_a_waiting_request_delays_later_pipelined_requests(place: Place) -> None:
    talk = asyncio.create_task(place.talk(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n" + LAST))
    await place.arrived.wait()
    place.go.set()
    assert bodies(await talk) == [b"GET /held 0 ", b"GET /last 0 "]


async def test_a_body_may_come_in_chunks_and_in_single_bytes(place: Place) -> None:
    sent = b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + LAST
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    for number in range(len(sent)):
        writer.write(sent[number : number + 1])
        await writer.drain()
        await asyncio.sleep(0)
    assert bodies(await reader.read()) == [b"PUT /x 5 abcde", b"GET /last 0 "]
    writer.close()


async def test_expect_100_continue_is_answered(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"abc")
    assert bodies(await reader.read()) == [b"POST /x 3 abc"]
    writer.close()


async def test_head_has_no_body_but_its_length(place: Place) -> None:
    answer = await place.talk(b"HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b""
    assert b"Content-Length: 10" in head


async def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(place: Place) -> None:
    answer = await place.talk(b"GET /stream HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b"onetwo"
    assert b"Transfer-Encoding" not in head


async def test_a_stream_is_chunked_and_the_connection_is_kept_alive(place: Place) -> None:
    answer = await place.talk(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n" + LAST)
    first, _, second = answer.partition(b"0\r\n\r\n")
    assert first.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n")
    assert bodies(second) == [b"GET /last 0 "]


async def test_a_stream_waits_for_a_slow_reader(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=1024)
    writer.write(b"GET /flood HTTP/1.0\r\n\r\n")
    await place.arrived.wait()
    connection = next(iter(place.listener.connections))
    await reader.readuntil(b"\r\n\r\n")
    assert connection.unread
    count = 0
    while piece := await reader.read(1 << 20):
        count += len(piece)
    assert count == 64_000_000
    writer.close()


async def test_answers_that_nobody_reads_take_bounded_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_LIMIT", 32_000_000)
    writers = []
    for _ in range(8):
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    assert len(place.listener.unread) > 1
    assert sum(connection.unread for connection in place.listener.unread) <= 32_000_000
    assert bodies(await place.talk(LAST)) == [b"GET /last 0 "]
    for writer in writers:
        writer.close()


async def test_invalid_http_is_answered_400_after_earlier_responses(place: Place) -> None:
    answer = await place.talk(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\nGET /x 0 HTTP/1.1 400 Bad Request\r\n" in answer


async def test_too_long_headers_are_rejected(place: Place) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(b"GET /x HTTP/1.1\r\nHost: h\r\nX-Long: ")
    writer.write(b"x" * 300_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.close()


async def test_the_handler_sees_that_a_body_is_too_long(place: Place) -> None:
    size = BODY_LIMIT + 100_000
    sent = b"POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
    assert bodies(await place.talk(sent)) == [b"POST /x %d %b" % (BODY_LIMIT + 1, b"x" * 20)]


async def test_an_upgrade_is_ignored(place: Place) -> None:
    answer = await place.talk(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert bodies(answer) == [b"GET /x 0 "]
    assert b"Connection: close\r\n" in answer


async def test_a_disconnected_client_cancels_its_request(place: Place) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n")
    await place.arrived.wait()
    writer.close()
    async with asyncio.timeout(60):
        await place.cancelled.wait()


async def test_a_stop_lets_a_running_request_finish_and_closes_idle_connections(place: Place) -> None:
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", place.port)
    talk = asyncio.create_task(place.talk(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n"))
    await place.arrived.wait()
    stop = asyncio.create_task(place.listener.stop(30))
    assert await idle.read() == b""
    idle_writer.close()
    assert not talk.done()
    place.go.set()
    await stop
    assert bodies(await talk) == [b"GET /held 0 "]
    assert not place.listener.connections


async def test_a_stop_has_a_timeout(place: Place) -> None:
    talk = asyncio.create_task(place.talk(b"GET /held HTTP/1.1\r\nHost: h\r\n\r\n"))
    await place.arrived.wait()
    await place.listener.stop(0.05)
    assert place.cancelled.is_set()
    assert await talk == b""


async def test_nothing_of_a_closed_connection_waits_for_the_garbage_collector(place: Place) -> None:
    """Garbage is collected seldom, and a connection has its last request."""
    gc.disable()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        await reader.readuntil(b"body")
        (connection,) = place.listener.connections
        ended = asyncio.Event()
        weakref.finalize(connection, ended.set)
        del connection
        writer.close()
        async with asyncio.timeout(10):
            await ended.wait()
    finally:
        gc.enable()
