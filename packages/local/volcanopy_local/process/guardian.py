"""Cleans up after a cluster that is killed: ends the programs that it had started, and deletes its files and control groups.

The guardian is a program of its own, which reads from a pipe that only the cluster has. The pipe ends with the cluster, however
that ends: then the guardian kills every process group that has been reported to it, and deletes the folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_END = 2.0
"""Seconds that programs have to end what is below them."""


class Guardian:
    """Watches over the programs of this process; `folder` and folders of control groups are deleted with it."""

    def __init__(self, folder: Path, groups: Iterable[Path] = ()) -> None:
        command = [sys.executable, "-I", "-S", __file__, str(folder), *map(str, groups)]
        self._program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def started(self, group: int) -> None:
        """Kill this process group at the end."""
        self._write(f"+{group}\n")

    def ended(self, group: int) -> None:
        """The process group is empty: its number may be given to others."""
        self._write(f"-{group}\n")

    def remove(self, folder: Path) -> None:
        """Delete this folder at the end."""
        self._write(f"/{folder}\n")

    def close(self) -> None:
        """End the guardian; it has done its work when this returns."""
        assert self._program.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._program.stdin.close()
        self._program.wait()

    def _write(self, line: str) -> None:
        assert self._program.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self._program.stdin.fileno(), line.encode())


def _watch() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    folder, *parents = sys.argv[1:]
    folders = [folder]
    for line in sys.stdin:
        kind, text = line[0], line[1:].rstrip("\n")
        if kind == "/":
            folders.append(text)
        else:
            (groups.add if kind == "+" else groups.discard)(int(text))
    # The programs that run containers end what is below them when they are terminated.
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        _wait_for(groups)
    for parent in parents:
        _remove_groups(parent)
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)


def _wait_for(groups: Iterable[int]) -> None:
    """Wait a short time until process groups have ended."""
    deadline = time.monotonic() + _END
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.01)


def _remove_groups(parent: str) -> None:
    """Delete a folder of control groups when the kernel has taken the killed processes out of them."""
    for _ in range(200):
        try:
            for name in os.listdir(parent):
                if os.path.isdir(path := os.path.join(parent, name)):
                    os.rmdir(path)
            os.rmdir(parent)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)


if __name__ == "__main__":
    _watch()
