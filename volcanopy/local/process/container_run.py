"""One run of a container: its output in a log file, its signals and its exit code, whatever runs it."""

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from embedded_apiserver.streams.command_streams import Pipe
from volcanopy.local.process.measurements import Usage
from volcanopy.local.simulated.pod_status import micro_stamp

OUTPUT_CHUNK = 1 << 16
"""Bytes of output that are read at a time, and the longest line of a log."""


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


class ContainerRun(ABC):
    """A running container: its output in a log file and for attached clients, its input, its signals and its end.

    Made by a runtime, which defines where input, output and signals go.
    """

    identifier = ""
    """The id of the container as the API has it; empty where the runtime has none of its own."""
    image_id = ""

    def __init__(self, log: Path) -> None:
        """Begin to copy the output: the fields of a subclass are set before."""
        self.began = time.time()
        self.log = log
        self.output_closed = False
        self._listeners: list[Pipe] = []
        self._copying = asyncio.create_task(self._copy(), name=f"log of {log.stem}")
        self._output = asyncio.Event()

    @abstractmethod
    async def _read(self) -> bytes:
        """The next output; empty at its end."""

    @abstractmethod
    async def write_input(self, data: bytes) -> None:
        """Send bytes to the program's input. Raises OSError if it reads none any more."""

    @abstractmethod
    def end_input(self) -> None:
        """Close the program's input."""

    @abstractmethod
    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal; without effect if it has none."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the container."""

    @abstractmethod
    def used(self) -> Usage:
        """What the processes of the container use."""

    @abstractmethod
    async def wait(self) -> End:
        """Wait for the end of the container; what it has started and left behind is killed."""

    @abstractmethod
    async def _ended(self) -> None:
        """Wait for the end of the program."""

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
        waiting = asyncio.ensure_future(self._ended())
        try:
            await asyncio.wait_for(asyncio.shield(waiting), grace)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await waiting
