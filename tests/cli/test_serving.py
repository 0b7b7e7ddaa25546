"""The commands that run a service: invalid flags, ports in use, threads."""

import asyncio
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hack.certificates import kubeconfig
from tests.cli.run_commands import run_program
from volcanopy.cli.framework.options import ProcessOptions
from volcanopy.cli.service_process import BLOCKING_CALLS, serve
from volcanopy.services.process.health import Health


@pytest.fixture
def unreachable_kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig of a cluster that does not answer."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig("http://127.0.0.1:9", b"", "nobody", "token"))
    return str(file)


def test_a_lease_shorter_than_its_renew_deadline_is_rejected_in_one_sentence(unreachable_kubeconfig: str) -> None:
    run = run_program(
        "scheduler", "--kubeconfig", unreachable_kubeconfig, "--lease-duration", "5", "--health-port", "0"
    )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1] == (
        "volcanopy: --lease-duration, --renew-deadline, --retry-period: a lease of 5 s, renewed within 6.0 s, "
        "every 2.0 s: the first must be longer than the second, and that longer than the third"
    )


def test_a_health_port_in_use_is_reported_in_one_sentence(unreachable_kubeconfig: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_program(
            "controller",
            "--kubeconfig",
            unreachable_kubeconfig,
            "--bind-address",
            "127.0.0.1",
            "--health-port",
            str(port),
        )
    assert run.returncode == 1
    said = run.stderr.splitlines()[-1]
    assert said.startswith(
        f"volcanopy: health endpoints cannot listen on 127.0.0.1:{port}, set another --bind-address or --health-port"
    )
    assert "Traceback" not in run.stderr


def test_however_many_calls_would_stop_the_event_loop_at_once_a_service_has_no_more_threads_for_them() -> None:
    threads: set[int] = set()

    async def service(connection: object, stop: asyncio.Event, health: Health) -> None:
        met = threading.Barrier(BLOCKING_CALLS)

        def call() -> None:
            met.wait(timeout=60)
            threads.add(threading.get_ident())

        await asyncio.gather(*(asyncio.to_thread(call) for _ in range(10 * BLOCKING_CALLS)))

    cluster: Any = SimpleNamespace(connection=lambda: None)
    serve(cluster, ProcessOptions(bind_address="127.0.0.1", health_port=0), service)
    assert len(threads) == BLOCKING_CALLS
