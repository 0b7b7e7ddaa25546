"""The first process of a set of namespaces: it starts services, starts those again that end, and reaps every orphan."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

RESTART_PAUSE = 1.0
STEP = 0.1


@dataclass(frozen=True, eq=False)
class Service:
    """A program that runs for as long as its namespaces."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]


class Supervisor:
    """Services with their logs and pids in a folder. One with a file ``<name>.stopped`` is not started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services: dict[int, Service] = {}
        self._waiting: dict[Service, float] = {}
        """Services that have ended, with the time from which on they are started again."""
        (folder / "log").mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    def start(self, name: str, argv: Sequence[object], **environment: str) -> None:
        """Start a service."""
        self._spawn(Service(name, tuple(map(str, argv)), {**os.environ, **environment}))

    def wait_until(self, condition: Callable[[], bool], seconds: float, subject: str) -> None:
        """Wait for a condition; the process ends if it does not hold in time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                print(f"{subject}: not within {seconds:.0f} s", file=sys.stderr, flush=True)
                os._exit(1)
            self._step()
            time.sleep(STEP)

    def run(self) -> NoReturn:
        """Supervise the services for ever."""
        while True:
            self._step()
            time.sleep(STEP)

    def _spawn(self, service: Service) -> None:
        log = os.open(self._folder / "log" / f"{service.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        outputs = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        pid = os.posix_spawn(
            service.argv[0], service.argv, service.environment, setsid=True, setsigmask=(), file_actions=outputs
        )
        os.close(log)
        self._services[pid] = service
        (self._folder / f"{service.name}.pid").write_text(str(pid))

    def _step(self) -> None:
        while pid := _ended_child():
            if service := self._services.pop(pid, None):
                self._waiting[service] = time.monotonic() + RESTART_PAUSE
        for service, due in tuple(self._waiting.items()):
            if time.monotonic() >= due and not (self._folder / f"{service.name}.stopped").exists():
                del self._waiting[service]
                self._spawn(service)


def _ended_child() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0
