"""The processes of one control plane, which end together and with the process that started them.

A small watchdog (`sh`) holds the other end of a pipe from us. When we end in any way, SIGKILL included, the pipe
closes, and it kills the whole process group and removes the directory: nothing is left behind, wherever `sh` is.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

WATCHDOG = """
read -r group || { rm -rf -- "$1"; exit 0; }
read -r farewell && exit 0
kill -s KILL -- "-$group"
for attempt in 1 2 3 4 5; do rm -rf -- "$1" && exit 0; sleep 0.2; done
"""


def free_port() -> int:
    """Return a loopback port that nothing uses and that the system will not hand out again for a minute.

    A connection that was closed by the listening side leaves the port in TIME_WAIT: servers may still bind it (they
    all set SO_REUSEADDR), while the system's own choice of free ports passes it over. So two control planes that start
    at the same moment do not collide.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port: int = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            served, _peer = listener.accept()
            served.close()
            client.recv(1)
    return port


class ProcessGroup:
    """Some programs that run in `directory` (which the group owns, and removes), one log file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # Outside the group, so that it outlives the kill, and of its own session, so that no Ctrl-C reaches it.
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start one more program; the first one's process id is the group's."""
        leader = next(iter(self._running.values()), None)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                argv,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=leader.pid if leader else 0,
            )
        self._running[name] = process
        if leader is None:
            self._tell_watchdog(str(process.pid))

    def dead(self) -> list[str]:
        """Return the names of the programs that have ended, which none should of itself."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def pids(self) -> dict[str, int]:
        """Return each program's process id."""
        return {name: process.pid for name, process in self._running.items()}

    def log(self, name: str) -> Path:
        """Return the file with the output of the program, stdout and stderr together."""
        return self.directory / f"{name}.log"

    def tails(self, lines: int = 25) -> str:
        """Return the last lines of every log, for an error message."""
        parts = []
        for name in self._running:
            text = self.log(name).read_text(errors="replace").splitlines()
            parts.append("\n".join([f"--- {name}.log", *text[-lines:]]))
        return "\n".join(parts)

    def stop(self) -> None:
        """End every program and remove the directory. Calling it again does nothing.

        Killed, not asked: their data goes with the directory, and a polite kube-apiserver waits for its watchers.
        """
        for process in self._running.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        for process in self._running.values():
            process.wait()
        if self._watchdog.poll() is None:
            self._tell_watchdog("bye")
            self._watchdog.wait()
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _tell_watchdog(self, line: str) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(f"{line}\n".encode())
        self._watchdog.stdin.flush()
