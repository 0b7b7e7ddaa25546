"""Subresources of pods that connect a client with a container: exec, attach, portforward."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any
from urllib.parse import parse_qs

from embedded_apiserver.connections import Response, Tunnel
from embedded_apiserver.context import AccessError, Call, Context
from embedded_apiserver.crud.subresources import container_of, existing
from embedded_apiserver.status_errors import bad_request, internal, success
from embedded_apiserver.store.object_store import Body
from embedded_apiserver.streams import channels, websocket
from embedded_apiserver.streams.channels import CommandConnection, ProtocolError, Requested
from embedded_apiserver.streams.spdy import MessageBytes, SpdyConnection, SpdyStream

PORT_FORWARD = "portforward.k8s.io"
_TUNNELLED = f"{channels.SPDY}+{PORT_FORWARD}"
_CHUNK = 32 * 1024
_DRAIN = 10.0
"""Seconds that a client has to take the rest of the output and leave."""


async def execute(ctx: Context, call: Call) -> Response | Tunnel:
    """Run a command in a container."""
    pod = existing(ctx, call).body
    container = container_of(pod, call)
    command = parse_qs(call.http.target.partition("?")[2], keep_blank_values=True).get("command", [])
    if not command:
        raise bad_request("you must specify at least one command for the container")
    ctx.container_access.check(pod, container)

    async def work(connection: CommandConnection) -> Mapping[str, Any]:
        return end_status(await ctx.container_access.execute(pod, container, command, connection.streams))

    return await _serve(ctx, call, work)


async def attach(ctx: Context, call: Call) -> Response | Tunnel:
    """Connect with the main process of a container."""
    pod = existing(ctx, call).body
    container = container_of(pod, call)
    ctx.container_access.check(pod, container)

    async def work(connection: CommandConnection) -> Mapping[str, Any]:
        await ctx.container_access.attach(pod, container, connection.streams)
        return success()

    return await _serve(ctx, call, work)


def end_status(code: int) -> Mapping[str, Any]:
    """The Status of a command that ended with an exit code."""
    if code == 0:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _serve(ctx: Context, call: Call, work: Any) -> Response | Tunnel:
    """Accept the connection, do the work until it ends or the client leaves, and send its Status."""
    requested = Requested(
        call.flag("stdin"), call.flag("stdout"), call.flag("stderr") and not call.flag("tty"), call.flag("tty")
    )
    try:
        connection = await channels.accept(call.http, requested)
    except ProtocolError as error:
        raise bad_request(str(error)) from None
    async with _while_connected(ctx, connection.run()) as ended:
        working = asyncio.create_task(work(connection), name=f"{call.subresource} {call.name}")
        try:
            await asyncio.wait({working, ended}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                with contextlib.suppress(ConnectionError):
                    await connection.finish(_status_of(working))
                    await asyncio.wait({ended}, timeout=_DRAIN)
        finally:
            working.cancel()
            await asyncio.wait({working})
    assert call.http.upgraded is not None
    return call.http.upgraded


def _status_of(working: "asyncio.Task[Mapping[str, Any]]") -> Mapping[str, Any]:
    try:
        return working.result()
    except AccessError as error:
        return internal(str(error)).status()


@contextlib.asynccontextmanager
async def _while_connected(ctx: Context, reading: Awaitable[None]) -> AsyncIterator["asyncio.Task[Any]"]:
    """Run the reader of a connection; the task that is given ends when the client leaves or the server stops."""
    stopping = asyncio.Event()
    ctx.streams.add(stopping)
    reader, stop = asyncio.ensure_future(reading), asyncio.create_task(stopping.wait())
    ended = asyncio.create_task(asyncio.wait({reader, stop}, return_when=asyncio.FIRST_COMPLETED))
    try:
        yield ended
    finally:
        ctx.streams.discard(stopping)
        for task in (reader, stop, ended):
            task.cancel()
        await asyncio.wait({reader, stop, ended})


async def forward_ports(ctx: Context, call: Call) -> Response | Tunnel:
    """Carry connections of the client to ports of a pod: for each a pair of streams, `data` and `error`."""
    pod = existing(ctx, call).body
    ctx.container_access.check(pod, "")
    try:
        if offered := websocket.offered_protocols(call.http):
            socket = websocket.accept(call.http, channels.chosen(offered, (_TUNNELLED,)))
            connection = SpdyConnection(MessageBytes(socket))
        else:
            connection = channels.accept_spdy(call.http, (PORT_FORWARD,))
    except ProtocolError as error:
        raise bad_request(str(error)) from None
    errors: dict[str, SpdyStream] = {}
    carrying: set[asyncio.Task[None]] = set()
    async with _while_connected(ctx, connection.run()) as ended:
        try:
            while (stream := await _next_stream(connection, ended)) is not None:
                request = stream.headers.get("requestid", "")
                if stream.headers.get("streamtype") == "error":
                    errors[request] = stream
                elif (answer := errors.pop(request, None)) is not None:
                    task = asyncio.create_task(_carry(ctx, pod, connection, stream, answer))
                    carrying.add(task)
                    task.add_done_callback(carrying.discard)
        finally:
            for task in carrying:
                task.cancel()
            await asyncio.gather(*carrying, return_exceptions=True)
    assert call.http.upgraded is not None
    return call.http.upgraded


async def _next_stream(connection: SpdyConnection, ended: "asyncio.Task[Any]") -> SpdyStream | None:
    opened = asyncio.create_task(connection.opened.get())
    await asyncio.wait({opened, ended}, return_when=asyncio.FIRST_COMPLETED)
    if opened.done():
        return opened.result()
    opened.cancel()
    return None


async def _carry(ctx: Context, pod: Body, connection: SpdyConnection, data: SpdyStream, error: SpdyStream) -> None:
    """Connect to the port, and copy in both directions until both sides have ended."""
    try:
        try:
            reader, writer = await ctx.container_access.connect(pod, int(data.headers.get("port", "0")))
        except (AccessError, ValueError) as fault:
            await error.write(str(fault).encode())
            await data.close()
            return
        sending = asyncio.create_task(_send(data, writer))
        try:
            while chunk := await reader.read(_CHUNK):
                await data.write(chunk)
            await data.close()
        except OSError as fault:
            await error.write(f"error forwarding port: {fault}".encode())
            await data.reset()
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            writer.close()
    except ConnectionError:
        pass  # the client has left
    finally:
        with contextlib.suppress(ConnectionError):
            await error.close()
        connection.forget(data)
        connection.forget(error)


async def _send(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    """Copy what the client sends to the port; the end of it half-closes the connection."""
    with contextlib.suppress(OSError):
        while chunk := await data.incoming.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
