"""The Service `kubernetes` of a cluster, for pods of process nodes: port 443 of an address of its own leads to the API server.

Only some users may listen on that port. Without it programs find the API server by their variables alone.
"""

import asyncio
import contextlib

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.accounts import ApiAddress

NAMESPACE, NAME, PORT = "default", "kubernetes", 443
NAMES = (NAME, f"{NAME}.{NAMESPACE}", f"{NAME}.{NAMESPACE}.svc", f"{NAME}.{NAMESPACE}.svc.cluster.local")
"""The names that a certificate of the API server has for pods."""
_ADDRESSES = tuple(f"127.0.2.{number}" for number in range(1, 33))
"""Loopback addresses, of which a cluster takes the first that is free; those of pods begin at 127.1.0.0."""
_CHUNK = 1 << 16


def is_api(service: Json) -> bool:
    """Whether an object is this Service, which has no pods behind it."""
    metadata = service["metadata"]
    return bool((metadata["namespace"], metadata["name"]) == (NAMESPACE, NAME))


class ApiService:
    """Forwards connections to the API server."""

    def __init__(self, target: ApiAddress, port: int = PORT) -> None:
        self._target, self._port = target, port
        self._server: asyncio.Server | None = None
        self._forwarding: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; the address, or nothing if no address is free or this user may not listen on the port."""
        for address in _ADDRESSES:
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(self._forward, address, self._port)
                return address
        return ""

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._forwarding:
            task.cancel()
        await asyncio.gather(*self._forwarding, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._forwarding.add(task)
        try:
            server_reader, server_writer = await asyncio.open_connection(self._target.host, self._target.port)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_copy(reader, server_writer))
                    tasks.create_task(_copy(server_reader, writer))
            finally:
                server_writer.close()
        except* OSError:
            pass  # the client sees that the connection has ended
        finally:
            writer.close()
            self._forwarding.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection to its end."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
