"""The relay from a port of the machine's loopback to kube-apiserver; its socket is opened outside and inherited."""

import asyncio
import contextlib
import socket
import sys

from hack.realnode.layout import API_PORT

CHUNK = 65536


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", API_PORT)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def main(descriptor: int) -> None:
    """Accept connections on the socket of this descriptor, for ever."""
    server = await asyncio.start_server(_serve, sock=socket.socket(fileno=descriptor))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
