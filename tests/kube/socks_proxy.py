"""A SOCKS 5 proxy (RFC 1928) that connects to one server whatever target a client names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class SocksProxy:
    host: str
    server_port: int
    port: int = 0
    targets: list[tuple[str, int]] = field(default_factory=list)
    """The targets that clients named by their host names."""

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x00")  # no authentication
        *_, kind, length = await reader.readexactly(5)
        assert kind == 3, "the client resolved the name"
        name = await reader.readexactly(length)
        self.targets.append((name.decode(), int.from_bytes(await reader.readexactly(2))))
        server_reader, server_writer = await asyncio.open_connection(self.host, self.server_port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(reader, server_writer))
            tasks.create_task(_copy(server_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def socks_proxy(url: str) -> AsyncIterator[SocksProxy]:
    parts = urlsplit(url)
    proxy = SocksProxy(parts.hostname or "", parts.port or 80)
    server = await asyncio.start_server(proxy.connect, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy
