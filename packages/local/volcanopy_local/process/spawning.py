"""Starts programs in a time that does not grow with this process.

An event loop of libuv forks, which copies the page tables of a cluster with all its objects: 4 ms a program. Where nothing has
to be called in the new process, the interpreter uses vfork instead: 0.4 ms.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

NOTHING, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT


@dataclass(frozen=True)
class Streams:
    """Where a program's streams lead: a descriptor, NOTHING, PIPE, or STDOUT for errors."""

    stdin: int = NOTHING
    stdout: int = NOTHING
    stderr: int = NOTHING


@dataclass
class Program:
    """A running program, with this side of its pipes. Made by :func:`start`."""

    pid: int
    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None
    returncode: int | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def watch(self, popen: subprocess.Popen[bytes]) -> None:
        """Notice the end."""
        loop, descriptor = asyncio.get_running_loop(), os.pidfd_open(popen.pid)

        def end() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self.returncode = popen.wait()
            self._ended.set()

        loop.add_reader(descriptor, end)


async def start(
    argv: Sequence[str],
    streams: Streams,
    environment: Mapping[str, str],
    directory: str,
    *,
    pass_fds: Sequence[int] = (),
    before: Callable[[], None] | None = None,
) -> Program:
    """Start a program in a session of its own; `before` is called in the new process. Raises OSError."""
    popen = subprocess.Popen(  # noqa: ASYNC220  it returns as soon as the program is executed
        argv,
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
        env=dict(environment),
        cwd=directory,
        start_new_session=True,
        pass_fds=pass_fds,
        preexec_fn=before,  # noqa: PLW1509  what it calls are system calls
    )
    program = Program(popen.pid)
    program.watch(popen)
    if popen.stdout is not None:
        program.stdout = await reader_of(popen.stdout)
    if popen.stderr is not None:
        program.stderr = await reader_of(popen.stderr)
    if popen.stdin is not None:
        program.stdin = await _writer_of(popen.stdin)
    return program


class _PipeProtocol(asyncio.StreamReaderProtocol):
    """Closes the transport at the end of the pipe. One of uvloop else keeps it open until garbage is collected, in any thread."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def reader_of(pipe: IO[bytes]) -> asyncio.StreamReader:
    """A stream of what is written to a pipe."""
    reader = asyncio.StreamReader()
    protocol = _PipeProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file_of_transport(pipe, "rb"))
    return reader


async def _writer_of(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, file_of_transport(pipe, "wb"))
    return asyncio.StreamWriter(transport, protocol, None, loop)


def file_of_transport(pipe: IO[bytes], mode: str) -> IO[bytes]:
    """Return the file that a transport gets, and closes.

    A transport of uvloop closes the descriptor, then the file. In between another thread may have opened the same number,
    which the file would close: so the file of such a transport leaves its descriptor open.
    """
    if not type(asyncio.get_running_loop()).__module__.startswith("uvloop"):
        return pipe
    with pipe:
        return open(os.dup(pipe.fileno()), mode, buffering=0, closefd=False)
