"""Cleans up after a cluster that is killed: ends the programs that it had started, and deletes its files and control groups.

The guardian is a program of its own, which reads from a pipe that only the cluster has. The pipe ends with the cluster, however
that ends: then the guardian kills every process group that has been reported to it, and deletes the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path


class Guardian:
    """Watches over the programs of this process; `folder` is deleted with it if given, and folders of control groups."""

    def __init__(self, folder: Path | None = None, groups: Iterable[Path] = ()) -> None:
        command = [sys.executable, "-I", "-S", __file__, "" if folder is None else str(folder), *map(str, groups)]
        self._program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def started(self, group: int) -> None:
        """Kill this process group at the end."""
        self._write(f"+{group}\n")

    def ended(self, group: int) -> None:
        """The process group is empty: its number may be given to others."""
        self._write(f"-{group}\n")

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
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    folder, *parents = sys.argv[1:]
    for parent in parents:
        _remove_groups(parent)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


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
