"""Processes under test: probed, and started again whenever they end, as a kubelet does, and sent signals in between."""

import asyncio
import contextlib
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals

import aiohttp

PROBE_PERIOD, PROBE_FAILURES = 10.0, 3
"""Seconds between two liveness probes of a process, and failures in a row after which it is killed: those of the chart."""
START_SECONDS = 120.0
"""For which the probes of a starting process may fail: those of the chart's startup probe."""
RESTART_PAUSE = 0.3
"""Seconds between the end of a process and its next start."""
CAN_LIMIT = hasattr(resource, "prlimit")
"""Whether limits of running processes can be changed here (Linux)."""


class RestartedProcess:
    """A Python module run as a process again and again; its output goes to a file.

    ``port`` is that of its ``/healthz`` on this machine; without one it is not probed. ``python`` runs it.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        port: int | None = None,
        python: Path | str = sys.executable,
    ) -> None:
        self.name, self.log, self.port = name, log, port
        self.starts = 0
        self.probe_kills = 0
        """How often it was killed because its probes failed."""
        self._arguments = arguments
        # Another release is not looked for in the current folder, which may be the source of this one.
        self._python = (str(python), "-P")
        self._wrapper: Sequence[str] = ("-m",)
        self._process: asyncio.subprocess.Process | None = None
        self._allowed = asyncio.Event()
        self._allowed.set()

    @property
    def pid(self) -> int | None:
        """The id of the running process, None between two lives."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def keep(self) -> None:
        """Run the process again and again until cancelled."""
        try:
            while True:
                await self._allowed.wait()
                with self.log.open("ab") as output:
                    self._process = await asyncio.create_subprocess_exec(
                        *self._python, *self._wrapper, *self._arguments, stdout=output, stderr=output
                    )
                self.starts += 1
                probing = asyncio.create_task(self._probe())
                await self._process.wait()
                probing.cancel()
                await asyncio.sleep(RESTART_PAUSE)
        finally:
            self.send(SIGKILL)
            if self._process is not None:
                await self._process.wait()

    async def _probe(self) -> None:
        """Kill the process when its probes fail."""
        if self.port is None:
            return
        failures, allowed = 0, int(START_SECONDS / PROBE_PERIOD)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_PERIOD / 2)) as session:
            while failures < allowed:
                await asyncio.sleep(PROBE_PERIOD)
                if await _is_healthy(session, self.port):
                    failures, allowed = 0, PROBE_FAILURES
                else:
                    failures += 1
        self.probe_kills += 1
        self.send(SIGKILL)

    def send(self, number: Signals) -> None:
        """Send a signal if the process runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process for the duration of the block, without its knowledge."""
        self.send(SIGSTOP)
        try:
            yield
        finally:
            self.send(SIGCONT)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Kill the process, and do not start it again for the duration of the block."""
        self._allowed.clear()
        self.send(SIGKILL)
        try:
            yield
        finally:
            self._allowed.set()

    @contextlib.contextmanager
    def wrapped(self, program: Path, *arguments: str) -> Iterator[None]:
        """Kill the process, and run its module by a program for the duration of the block: with these arguments before its own."""
        self._wrapper = (str(program), *arguments)
        self.send(SIGKILL)
        try:
            yield
        finally:
            self._wrapper = ("-m",)
            self.send(SIGKILL)

    @contextlib.contextmanager
    def limited(self, what: int, amount: int) -> Iterator[None]:
        """Set a resource limit (``resource.RLIMIT_...``) of the running process for the duration of the block."""
        pid = self.pid
        if pid is None:
            yield
            return
        soft, hard = resource.prlimit(pid, what)
        resource.prlimit(pid, what, (amount, hard))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, what, (soft, hard))

    def address_space(self) -> int:
        """Return the bytes of address space that the process uses (Linux), 0 if it does not run."""
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0])
            return pages * resource.getpagesize()
        return 0


async def _is_healthy(session: aiohttp.ClientSession, port: int) -> bool:
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            return answer.status == 200
    return False
