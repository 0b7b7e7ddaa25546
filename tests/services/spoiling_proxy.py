"""A proxy in front of an API server that spoils lists and watches of one kind on demand."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from volcanopy.kube.client.connection import Connection

HTML = b"<html><body>502 Bad Gateway</body></html>\n"


def error_event(code: int, reason: str) -> bytes:
    """An ERROR event in a watch."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


@dataclass
class SpoilingProxy:
    """Forwards everything; see the methods."""

    target: Connection
    url: str = ""
    watches: dict[asyncio.Task[object], tuple[str, asyncio.Queue[bytes]]] = field(default_factory=dict)
    answers: list[tuple[str, str, int, bytes]] = field(default_factory=list)

    def inject(self, plural: str, line: bytes) -> int:
        """Put bytes into all open watches of a kind; an empty line closes them. Returns their number."""
        queues = [queue for name, queue in self.watches.values() if name == plural]
        for queue in queues:
            queue.put_nowait(line)
        return len(queues)

    def answer(self, plural: str, how: str, code: int, body: bytes) -> None:
        """Answer the next ``list`` or ``watch`` of a kind like this."""
        self.answers.append((plural, how, code, body))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        plural = request.path.rpartition("/")[2]
        watch = request.query.get("watch") in {"true", "1"}
        how = "watch" if watch else "list" if request.method == "GET" else ""
        for entry in self.answers:
            if entry[:2] == (plural, how):
                self.answers.remove(entry)
                return web.Response(status=entry[2], body=entry[3], content_type="text/html")
        headers = {
            key: value for key, value in request.headers.items() if key.lower() not in {"host", "transfer-encoding"}
        }
        headers |= dict(await self.target.credentials.headers())
        async with self._session.request(
            request.method,
            self.target.url + request.raw_path,
            headers=headers,
            data=await request.read() or None,
            ssl=self.target.ssl or True,
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            if not watch or answer.status != 200:
                await response.write(await answer.read())
                return response
            await self._stream(plural, answer, response)
            return response

    async def _stream(self, plural: str, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        task, queue = asyncio.current_task(), asyncio.Queue[bytes]()
        assert task is not None
        self.watches[task] = plural, queue
        injected = asyncio.ensure_future(queue.get())
        chunk = asyncio.ensure_future(answer.content.readany())
        try:
            while True:
                await asyncio.wait((injected, chunk), return_when=asyncio.FIRST_COMPLETED)
                if injected.done():
                    if not (line := injected.result()):
                        return
                    await response.write(line)
                    injected = asyncio.ensure_future(queue.get())
                if chunk.done():
                    if not (data := chunk.result()):
                        return
                    await response.write(data)
                    chunk = asyncio.ensure_future(answer.content.readany())
        finally:
            injected.cancel()
            chunk.cancel()
            del self.watches[task]

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Connection) -> "AsyncIterator[SpoilingProxy]":
        """A proxy on a free port."""
        proxy = cls(target)
        proxy._session = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            proxy.url = "http://{}:{}".format(*runner.addresses[0][:2])
            yield proxy
        finally:
            for task in list(proxy.watches):
                task.cancel()
            await runner.cleanup()
            await proxy._session.close()

    _session: aiohttp.ClientSession = field(init=False, repr=False)
