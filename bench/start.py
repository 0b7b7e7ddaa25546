"""How long a service or a command starts: `python -m bench start`.

Each service is started three times, as a process of its own, beside an embedded cluster of its own kinds. What counts is the
processor time from the start of the program until `/readyz` answers, the least of the three; the seconds and the resident
memory at that moment are printed as well. Commands run beside the same cluster, with a job that waits on 100 nodes.

All programs use the cached bytecode, as installed ones do: without it, `explain job` takes twice as long.
"""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.controlplane.processes import free_port

TIMES = 3
SECONDS = 120.0
ALONE = ("--scheduler-name", "other", "--no-leader-elect")
"""Beside the services of the cluster itself."""
COMMANDS = {
    "job_list": ("job", "list"),
    "queue_list": ("queue", "list"),
    "explain_queue": ("explain", "queue", "default"),
    "explain_job": ("explain", "job", "waiting"),
}
FILL = ("--image", "x", "--annotation", "sim.volcanopy.io/duration=1h", "--queue", "default")
JOBS = {
    "running": ("--replicas", "100", "--min", "100", "--cpu", "6"),
    "waiting": ("--replicas", "30", "--min", "30", "--cpu", "4"),
}
"""The first job takes 6 cpu of each of the 100 nodes, and no pod of the second fits beside it."""
OPTIONS = {"scheduler": ALONE, "controller": ALONE, "admission": ("--bind-address", "127.0.0.1")}


def run() -> dict[str, float]:
    """Return the processor seconds, the seconds and the memory of each service until it was ready."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanopy-start-")))
        config = folder / "config"
        cluster = [sys.executable, "-m", "volcanopy", "local", "up", "--simulate", "100", "--kubeconfig", str(config)]
        up = stack.enter_context(
            subprocess.Popen(cluster, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        )
        stack.callback(up.terminate)
        assert up.stdout is not None
        while not config.exists():
            if not up.stdout.readline():
                raise RuntimeError("the cluster did not start")
        for name in OPTIONS:
            runs = [_start(name, config, folder) for _ in range(TIMES)]
            for measure, values in zip(("cpu_seconds", "seconds", "mebibytes"), zip(*runs, strict=True), strict=True):
                figures[f"{name}_{measure}"] = min(values)
        for name, options_of_job in JOBS.items():
            _command(("job", "run", "--name", name, *FILL, *options_of_job, "--", "sleep", "1h"), config)
            _command(("job", "wait", name, f"--for=phase={'Running' if name == 'running' else 'Pending'}"), config)
        for name, arguments in COMMANDS.items():
            figures[f"{name}_cpu_seconds"] = min(_command(arguments, config) for _ in range(TIMES))
    return figures


def _command(arguments: Sequence[str], config: Path) -> float:
    """Run a command to its end: processor seconds."""
    before = os.times()
    command = [sys.executable, "-m", "volcanopy", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"KUBECONFIG": str(config)})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _start(name: str, config: Path, folder: Path) -> tuple[float, float, float]:
    """Start a service, and end it when it is ready: processor seconds, seconds and MiB."""
    port = free_port()
    arguments = [sys.executable, "-m", "volcanopy", name, "--kubeconfig", str(config), "--health-port", str(port)]
    began = time.monotonic()
    with (
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen([*arguments, *OPTIONS[name]], stderr=log) as process,
    ):
        try:
            while not _ready(port):
                if process.poll() is not None or time.monotonic() - began > SECONDS:
                    raise RuntimeError(f"the {name} was not ready: {(folder / f'{name}.log').read_text()[-2000:]}")
                time.sleep(0.02)
            seconds = time.monotonic() - began
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            memory = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        finally:
            process.terminate()
    return spent, seconds, memory


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
