"""A command that runs beside a container: `kubectl exec`, exec probes, lifecycle hooks."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable

from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from volcanopy_local.process import spawning
from volcanopy_local.process.guardian import Guardian
from volcanopy_local.process.isolation import Command
from volcanopy_local.process.launching import launch
from volcanopy_local.process.terminal import Terminal

_CHUNK = 1 << 15


async def run(command: Command, streams: CommandStreams, guardian: Guardian | None = None) -> int:
    """Run a command with these streams to its end; its exit code, 128 and the signal for a killed one.

    If the caller is cancelled, the command is killed with everything that it started. Raises StartError.
    """
    if streams.tty:
        return await _run_on_terminal(command, streams, guardian)
    process = await _start(
        command,
        spawning.Streams(
            spawning.PIPE if streams.stdin is not None else spawning.NOTHING,
            spawning.PIPE if streams.stdout is not None else spawning.NOTHING,
            spawning.PIPE if streams.stderr is not None else spawning.NOTHING,
        ),
        guardian,
    )
    feeding: asyncio.Task[None] | None = None
    try:
        if streams.stdin is not None and process.stdin is not None:
            feeding = asyncio.create_task(_feed(streams.stdin, process.stdin), name="stdin")
        async with asyncio.TaskGroup() as copying:
            if streams.stdout is not None and process.stdout is not None:
                copying.create_task(_copy(process.stdout.read, streams.stdout))
            if streams.stderr is not None and process.stderr is not None:
                copying.create_task(_copy(process.stderr.read, streams.stderr))
        return _exit_code(await process.wait())
    finally:
        if feeding is not None:
            feeding.cancel()
        await _kill(process, guardian)


async def _run_on_terminal(command: Command, streams: CommandStreams, guardian: Guardian | None) -> int:
    terminal = Terminal()
    tasks: list[asyncio.Task[None]] = []
    try:
        if streams.sizes is not None and not streams.sizes.empty():
            terminal.resize(*streams.sizes.get_nowait())
        device = terminal.device
        process = await _start(command, spawning.Streams(device, device, device), guardian, terminal)
        try:
            tasks.append(asyncio.create_task(follow_sizes(terminal.resize, streams), name="terminal size"))
            if streams.stdin is not None:
                tasks.append(asyncio.create_task(type_input(terminal, streams.stdin), name="terminal input"))
            if streams.stdout is not None:
                await _copy(lambda _: terminal.read(), streams.stdout)
            return _exit_code(await process.wait())
        finally:
            await _kill(process, guardian)
    finally:
        for task in tasks:
            task.cancel()
        terminal.close()


async def type_input(terminal: Terminal, stdin: Pipe) -> None:
    """Type what a client sends on a terminal."""
    with contextlib.suppress(OSError):
        while data := await stdin.read():
            await terminal.write(data)
        terminal.end_input()


async def follow_sizes(resize: Callable[[int, int], None], streams: CommandStreams) -> None:
    """Call `resize` with the sizes (columns, rows) that a client reports."""
    while streams.sizes is not None:
        resize(*await streams.sizes.get())


async def _start(
    command: Command, streams: spawning.Streams, guardian: Guardian | None, terminal: Terminal | None = None
) -> spawning.Program:
    program, _ = await launch(command, streams, terminal)
    if guardian is not None:
        guardian.started(program.pid)
    return program


async def _copy(read: Callable[[int], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await read(_CHUNK):
        await write(data)


async def _feed(stdin: Pipe, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        while data := await stdin.read():
            writer.write(data)
            await writer.drain()
        writer.close()


async def _kill(process: spawning.Program, guardian: Guardian | None) -> None:
    """Kill what still runs of a command."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)  # the launcher kills everything below it
        await asyncio.shield(process.wait())
    if guardian is not None:
        guardian.ended(process.pid)


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
