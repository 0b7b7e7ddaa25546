"""Run commands in this process or in a pseudo terminal, and wait for objects."""

import asyncio
import contextlib
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from unittest import mock

from volcanopy.cli.main import main
from volcanopy.client.watch import watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection

COMMAND = [sys.executable, "-m", "volcanopy"]


@dataclass(frozen=True)
class Outcome:
    """The exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()

    def sentence(self) -> str:
        """The error message, which must be one line."""
        assert self.err.startswith("volcanopy: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.removeprefix("volcanopy: ").strip()


def until(config: Path, kind: Kind[Json], holds: Callable[[list[Json]], bool], seconds: float = 120.0) -> None:
    """Wait until a predicate is true for the objects of a kind in the namespace of a kubeconfig."""

    async def wait() -> None:
        connection = load_connection(config)
        async with (
            asyncio.timeout(seconds),
            Client(connection) as client,
            watch_objects(client, kind, connection.namespace if kind.namespaced else None) as followed,
        ):
            while not holds(list(followed.objects.values())):
                await followed.changed()

    asyncio.run(wait())


def has_unschedulable_reason(name: str) -> Callable[[list[Json]], bool]:
    """Return a predicate: whether the job has the scheduler's message about insufficient resources."""
    return lambda jobs: any(
        job["metadata"]["name"] == name and "Insufficient" in str(job.get("status", {}).get("state")) for job in jobs
    )


def run_program(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command in a process of its own, which takes up to 1.3 s of processor time to load what it needs."""
    return subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, text=True, check=False, timeout=300)


class Run(Protocol):
    """Something that runs a command."""

    def __call__(self, *words: str | Path, stdin: str = "") -> Outcome:
        """Run it, with this on its standard input."""


def run_in_process(
    *words: str | Path,
    kubeconfig: Path | None = None,
    stdin: str = "",
    home: Path | None = None,
    encoding: str = "utf-8",
) -> Outcome:
    """Run a command in this process, its output going to a pipe with this encoding."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
    environment = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {"KUBECONFIG": ""}
    with (
        mock.patch.dict(os.environ, {**environment, "HOME": str(home or "/nonexistent")}),
        mock.patch.object(sys, "argv", ["volcanopy", *map(str, words)]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    return Outcome(status, *(item.buffer.getvalue().decode(encoding) for item in (out, err)))


@contextlib.contextmanager
def terminal(
    command: Sequence[str], environment: Mapping[str, str], columns: int = 100
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A process with a terminal of its own, so many columns wide; gives the process and the other end."""
    ours, theirs = pty.openpty()
    everything = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50", **environment}
    everything.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=everything, close_fds=True, start_new_session=True
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)


def read_until(end: int, process: "subprocess.Popen[bytes]", wanted: str = "", seconds: float = 120.0) -> str:
    """What the process writes to its terminal until it has written ``wanted``, or until it ends."""
    said = b""
    while not wanted or not re.search(wanted, said.decode(errors="replace")):
        ready, _, _ = select.select([end], [], [], seconds)
        assert ready, f"nothing more came within {seconds} s; so far: {said!r}"
        try:
            piece = os.read(end, 65536)
        except OSError:  # Linux ends a terminal without open file descriptors with EIO
            break
        if not piece:
            break
        said += piece
    return said.decode()


def run_in_terminal(
    *words: str | Path, kubeconfig: Path | None = None, columns: int = 100, **more: str
) -> tuple[int, str]:
    """Run a command in a real terminal; gives its exit status and all that the terminal received."""
    environment = {"KUBECONFIG": str(kubeconfig) if kubeconfig else "", **more}
    with terminal([*COMMAND, *map(str, words)], environment, columns) as (process, end):
        said = read_until(end, process)
        return process.wait(timeout=60), said.replace("\r\n", "\n")


@contextlib.contextmanager
def local_cluster(kubeconfig: Path, *arguments: str) -> Iterator[None]:
    """Run `local up` with these arguments as a process, from its first line to the end of the block."""
    words = [*COMMAND, "local", "up", *arguments, "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "is running" in said, said
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()
        process.wait()
