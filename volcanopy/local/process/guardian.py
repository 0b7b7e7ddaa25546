"""Cleans up after a cluster that is killed: ends the programs that it had started, and deletes its files.

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
from pathlib import Path


class Guardian:
    """Watches over the programs of this process; `folder` is deleted with it if given."""

    def __init__(self, folder: Path | None = None) -> None:
        command = [sys.executable, "-I", "-S", __file__, *([str(folder)] if folder is not None else [])]
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
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch()
