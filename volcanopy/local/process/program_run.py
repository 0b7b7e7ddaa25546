"""A container that is a program of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from volcanopy.local.process import spawning
from volcanopy.local.process.container_run import OUTPUT_CHUNK, ContainerRun, End, StartError
from volcanopy.local.process.guardian import Guardian
from volcanopy.local.process.isolation import Command
from volcanopy.local.process.launching import launch
from volcanopy.local.process.limits import EnforcedLimits
from volcanopy.local.process.measurements import Usage, descendants, used_by
from volcanopy.local.process.terminal import Terminal


class ProgramRun(ContainerRun):
    """A running program of this machine. Made by :meth:`start`."""

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
        super().__init__(log)
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

    async def _ended(self) -> None:
        await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the container."""
        pids = list(descendants(self.first_pid))
        if number is signal.SIGKILL:
            # The first process of a process name space takes all others with it; a launcher without one kills them itself.
            pids = [self.first_pid]
            number = signal.SIGTERM if self.first_pid == self._process.pid else number
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # others get it although this one has ended
                os.kill(pid, number)
