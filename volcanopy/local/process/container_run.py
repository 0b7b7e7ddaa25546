"""One run of a container: a program with its output in a log file, its signals and its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from volcanopy.local.apiserver.streams.command_streams import Pipe
from volcanopy.local.process import spawning
from volcanopy.local.process.guardian import Guardian
from volcanopy.local.process.isolation import Command
from volcanopy.local.process.limits import EnforcedLimits
from volcanopy.local.process.measurements import Usage, descendants, used_by
from volcanopy.local.process.terminal import Terminal, before_exec
from volcanopy.local.simulated.pod_status import micro_stamp

_CHUNK = 1 << 16


class StartError(Exception):
    """The program of a container does not exist or cannot be executed; `code` is the exit code that a kubelet shows."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class End:
    """The end of a run: exit code, times in seconds of the epoch, and whether it was killed because of its memory."""

    code: int
    began: float
    ended: float
    out_of_memory: bool = False


class ContainerRun:
    """A running container. Made by :meth:`start`."""

    def __init__(self, process: spawning.Program, first_pid: int, log: Path, terminal: Terminal | None = None) -> None:
        self.began = time.time()
        self.log = log
        self.output_closed = False
        self.first_pid = first_pid
        self.terminal = terminal
        self._process = process
        self._guardian: Guardian | None = None
        self._limits: EnforcedLimits | None = None
        self._watching: asyncio.Task[None] | None = None
        self._listeners: list[Pipe] = []
        self._copying: asyncio.Task[None] | None = None
        self._output = asyncio.Event()

    @classmethod
    async def start(
        cls,
        command: Command,
        log: Path,
        guardian: Guardian | None = None,
        limits: EnforcedLimits | None = None,
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> ContainerRun:
        """Start the program, with an input that stays open and a terminal if asked. Raises StartError."""
        argv = list(command.argv)
        reading, writing = os.pipe() if command.info_option else (-1, -1)
        if command.info_option:
            argv[1:1] = [command.info_option, str(writing)]
        argv = [*command.prefix, *argv]
        log.parent.mkdir(parents=True, exist_ok=True)
        terminal = Terminal() if tty else None
        streams = spawning.Streams(spawning.PIPE if stdin else spawning.NOTHING, spawning.PIPE, spawning.STDOUT)
        if terminal is not None:
            streams = spawning.Streams(terminal.device, terminal.device, spawning.STDOUT)
        try:
            process = await spawning.start(
                argv,
                streams,
                command.environment,
                command.working_directory,
                pass_fds=(writing,) if writing >= 0 else (),
                before=before_exec(command, terminal),
            )
        except FileNotFoundError:
            _close(reading, writing, terminal)
            raise StartError(f'exec: "{argv[0]}": executable file not found in $PATH', 127) from None
        except OSError as error:
            _close(reading, writing, terminal)
            raise StartError(f'exec: "{argv[0]}": {error.strerror}', 126) from None
        if terminal is not None:
            terminal.started()
        first_pid = process.pid
        if command.info_option:
            os.close(writing)
            first_pid = await _reported_pid(reading) or process.pid
        run = cls(process, first_pid, log, terminal)
        if guardian is not None:
            guardian.started(process.pid)
            run._guardian = guardian
        run._copying = asyncio.create_task(run._copy(), name=f"log of {log.stem}")
        if limits is not None:
            run._limits = limits
            run._watching = asyncio.create_task(limits.watch(run.used, lambda: run.signal(signal.SIGKILL)))
        return run

    @property
    def prefix(self) -> tuple[str, ...]:
        """The beginning of a command line whose program has the limits of the container."""
        return () if self._limits is None else self._limits.prefix

    def next_output(self) -> asyncio.Event:
        """An event that is set when lines are added to the log next, or its output is closed."""
        return self._output

    async def _copy(self) -> None:
        """Write the output to the log, every line with its time, until the program and its children close it."""
        rest = b""
        with self.log.open("ab") as file:
            while chunk := await self._read():
                for listener in [each for each in self._listeners if not each.offer(chunk)]:
                    self.detach(listener)
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _CHUNK:
                    lines, rest = [*lines, rest], b""
                self._write(file, lines)
            self.output_closed = True
            self._write(file, [rest] if rest else [])
        for listener in list(self._listeners):
            self.detach(listener)

    async def _read(self) -> bytes:
        if self.terminal is not None:
            return await self.terminal.read()
        assert self._process.stdout is not None
        return await self._process.stdout.read(_CHUNK)

    def used(self) -> Usage:
        """What the processes of the container use."""
        return used_by([self._process.pid, *descendants(self._process.pid)])

    # Attached clients

    def attach(self) -> Pipe:
        """The output from now on, until the program ends; a client that reads too slowly is detached."""
        listener = Pipe()
        if self.output_closed:
            listener.close()
        else:
            self._listeners.append(listener)
        return listener

    def detach(self, listener: Pipe) -> None:
        """Send no more output there."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        listener.close()

    async def write_input(self, data: bytes) -> None:
        """Send bytes to the program's input. Raises OSError if it reads none any more."""
        if self.terminal is not None:
            await self.terminal.write(data)
        elif self._process.stdin is not None:
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    def end_input(self) -> None:
        """Close the program's input."""
        if self.terminal is not None:
            self.terminal.end_input()
        elif self._process.stdin is not None:
            self._process.stdin.close()

    def _write(self, file: IO[bytes], lines: list[bytes]) -> None:
        at = micro_stamp(time.time()).encode()
        file.write(b"".join(b"%s %s\n" % (at, line) for line in lines))
        file.flush()
        self._output.set()
        self._output = asyncio.Event()

    async def wait(self) -> End:
        """Wait for the end of the program; what it has started and left behind is killed."""
        code = await self._process.wait()
        if self.first_pid == self._process.pid:
            self.signal(signal.SIGKILL)
        if self._guardian is not None:
            self._guardian.ended(self._process.pid)
        if self._copying is not None:
            await self._copying
        if self.terminal is not None:
            self.terminal.close()
        if self._watching is not None:
            self._watching.cancel()
        out_of_memory = self._limits is not None and self._limits.end()
        return End(128 - code if code < 0 else code, self.began, time.time(), out_of_memory)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the container."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.first_pid == self._process.pid:
                os.killpg(self._process.pid, number)
            elif number is signal.SIGKILL:
                # The first process of a process name space takes all others with it.
                os.kill(self.first_pid, number)
            else:
                for pid in list(descendants(self.first_pid)):
                    os.kill(pid, number)

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period (seconds) to what still runs; returns when it has ended."""
        self.signal(signal.SIGTERM)
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait_for(asyncio.shield(waiting), grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await waiting


def _close(reading: int, writing: int, terminal: Terminal | None) -> None:
    for descriptor in (reading, writing):
        if descriptor >= 0:
            os.close(descriptor)
    if terminal is not None:
        terminal.close()


async def _reported_pid(descriptor: int) -> int:
    """The pid that the program reports, 0 if it ended before."""
    reader = await spawning.reader_of(open(descriptor, "rb", buffering=0))  # noqa: ASYNC230, SIM115  its transport closes it
    try:
        return int(json.loads(await reader.read())["child-pid"])
    except (ValueError, KeyError):
        return 0
