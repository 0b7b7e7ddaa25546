"""One run of a container, a program of this machine: its output in a log file, its signals and its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from embedded_apiserver.streams.command_streams import Pipe
from volcanopy_local.process import spawning
from volcanopy_local.process.guardian import Guardian
from volcanopy_local.process.isolation import Command
from volcanopy_local.process.launching import StartError, launch
from volcanopy_local.process.limits import EnforcedLimits
from volcanopy_local.process.measurements import Usage, descendants, handles, used_by
from volcanopy_local.process.terminal import Terminal
from volcanopy_local.simulated.pod_status import micro_stamp

OUTPUT_CHUNK = 1 << 16
"""Bytes of output that are read at a time, and the longest line of a log."""


@dataclass(frozen=True)
class End:
    """The end of a run: exit code, times in seconds of the epoch, and whether it was killed because of its memory."""

    code: int
    began: float
    ended: float
    out_of_memory: bool = False


class ProgramRun:
    """A running program: its output in a log file and for attached clients, its input, its signals and its end.

    Made by :meth:`start`.
    """

    def __init__(
        self,
        process: spawning.Program,
        first_pid: int,
        log: Path,
        terminal: Terminal | None = None,
        guardian: Guardian | None = None,
        limits: EnforcedLimits | None = None,
    ) -> None:
        self.first_pid = first_pid
        self._process, self._terminal = process, terminal
        self._guardian, self._limits = guardian, limits
        self.began = time.time()
        self.log = log
        self.output_closed = False
        self._listeners: list[Pipe] = []
        self._copying = asyncio.create_task(self._copy(), name=f"log of {log.stem}")
        self._output = asyncio.Event()
        if guardian is not None:
            guardian.started(process.pid)
        self._watching: asyncio.Task[None] | None = None
        if limits is not None:
            self._watching = asyncio.create_task(limits.watch(self.used, lambda: self.signal(signal.SIGKILL)))

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
    ) -> ProgramRun:
        """Start the program, with an input that stays open and a terminal if asked. Raises StartError."""
        log.parent.mkdir(parents=True, exist_ok=True)
        terminal = Terminal() if tty else None
        streams = spawning.Streams(spawning.PIPE if stdin else spawning.NOTHING, spawning.PIPE, spawning.STDOUT)
        if terminal is not None:
            streams = spawning.Streams(terminal.device, terminal.device, spawning.STDOUT)
        try:
            process, first_pid = await launch(command, streams, terminal)
        except StartError:
            if terminal is not None:
                terminal.close()
            raise
        return cls(process, first_pid, log, terminal, guardian, limits)

    @property
    def groups(self) -> tuple[str, ...]:
        """The files by which a process joins the control groups of the container."""
        return () if self._limits is None else self._limits.groups

    async def _read(self) -> bytes:
        if self._terminal is not None:
            return await self._terminal.read()
        assert self._process.stdout is not None
        return await self._process.stdout.read(OUTPUT_CHUNK)

    def used(self) -> Usage:
        """What the processes of the container use."""
        return used_by([self._process.pid, *descendants(self._process.pid)])

    async def write_input(self, data: bytes) -> None:
        """Send bytes to the program's input. Raises OSError if it reads none any more."""
        if self._terminal is not None:
            await self._terminal.write(data)
        elif self._process.stdin is not None:
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    def end_input(self) -> None:
        """Close the program's input."""
        if self._terminal is not None:
            self._terminal.end_input()
        elif self._process.stdin is not None:
            self._process.stdin.close()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal; without effect if it has none."""
        if self._terminal is not None:
            self._terminal.resize(columns, rows)

    async def wait(self) -> End:
        """Wait for the end of the program; what it has started and left behind is killed."""
        code = await self._process.wait()
        if self._guardian is not None:
            self._guardian.ended(self._process.pid)
        await self.copied()
        if self._terminal is not None:
            self._terminal.close()
        if self._watching is not None:
            self._watching.cancel()
        out_of_memory = self._limits is not None and await self._limits.end()
        return End(128 - code if code < 0 else code, self.began, time.time(), out_of_memory)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program of the container if it has a handler, as in Kubernetes, else to every process."""
        pids = list(descendants(self.first_pid))
        if number is signal.SIGKILL:
            # The first process of a process name space takes all others with it; a launcher without one kills them itself.
            pids = [self.first_pid]
            number = signal.SIGTERM if self.first_pid == self._process.pid else number
        elif pids and handles(pids[0], number):
            pids = pids[:1]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # others get it although this one has ended
                os.kill(pid, number)

    def next_output(self) -> asyncio.Event:
        """An event that is set when lines are added to the log next, or its output is closed."""
        return self._output

    async def _copy(self) -> None:
        """Write the output to the log, every line with its time, until the program and its children close it."""
        rest = b""
        with self.log.open("ab") as file:
            while chunk := await self._read():
                for listener in [reader for reader in self._listeners if not reader.offer(chunk)]:
                    self.detach(listener)
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > OUTPUT_CHUNK:
                    lines, rest = [*lines, rest], b""
                self._write(file, lines)
            self.output_closed = True
            self._write(file, [rest] if rest else [])
        for listener in list(self._listeners):
            self.detach(listener)

    async def copied(self) -> None:
        """Wait until all output is in the log."""
        await self._copying

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

    def _write(self, file: IO[bytes], lines: list[bytes]) -> None:
        at = micro_stamp(time.time()).encode()
        file.write(b"".join(b"%s %s\n" % (at, line) for line in lines))
        file.flush()
        self._output.set()
        self._output = asyncio.Event()

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period (seconds) to what still runs; returns when it has ended."""
        self.signal(signal.SIGTERM)
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait_for(asyncio.shield(waiting), grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await waiting
