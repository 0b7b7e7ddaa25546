"""Prefect, unchanged, with a worker that runs flows as jobs on process nodes: `make workflow-clients` installs it in an environment of its own."""

import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.run_commands import local_cluster
from tests.clients.interpreters import interpreter, marks
from volcanopy import Job

PYTHON = interpreter("CLIENTS_PYTHON", "prefect")
pytestmark = marks(PYTHON, "prefect", "starts Prefect's server and worker")
FLOW = """
from prefect import flow, task

@task
def double(number):
    return 2 * number

@flow(log_prints=True)
def hello(number):
    print("doubled", double(number))
"""
DEPLOY = """
from prefect import flow
from prefect.deployments import run_deployment
from flows import hello

deployment = hello.from_source(source=".", entrypoint="flows.py:hello")
deployment.deploy("first", work_pool_name="batch", job_variables={"cpu": "0.5", "memory": "400Mi"}, print_next_steps=False)
deployment.deploy("second", work_pool_name="batch", job_variables={"command": "sh -c 'echo out of paper; exit 3'"}, print_next_steps=False)
for name, number in (("first", 21), ("first", None), ("second", 21)):
    print(run_deployment(f"hello/{name}", parameters={"number": number}, timeout=0).id)
"""
STATES = """
import sys
from prefect.client.orchestration import get_client

with get_client(sync_client=True) as client:
    print(*(client.read_flow_run(run).state.name for run in sys.argv[1:]))
"""


@contextmanager
def server(environment: dict[str, str], port: int, log: Path) -> Iterator[None]:
    """Prefect's server, with its database in the folder PREFECT_HOME."""
    command = (PYTHON, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            while process.poll() is None:
                try:
                    urllib.request.urlopen(f"{environment['PREFECT_API_URL']}/health", timeout=30)
                    break
                except (urllib.error.URLError, OSError):
                    continue
            yield
        finally:
            process.terminate()


def test_the_flow_runs_of_a_work_pool_are_jobs(tmp_path: Path) -> None:
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "flows"
    folder.mkdir()
    (folder / "flows.py").write_text(FLOW)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }

    def run(*words: str) -> str:
        ended = subprocess.run(
            (PYTHON, *words), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1500
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    local = ("--run-as-root",) if os.getuid() == 0 else ()
    with local_cluster(kubeconfig, *local), server(environment, port, tmp_path / "server.log"):
        run("-m", "prefect", "work-pool", "create", "batch", "--type", "volcanopy")
        runs = run("-c", DEPLOY).split()[-3:]
        run("-m", "prefect", "worker", "start", "--pool", "batch", "--run-once")
        assert run("-c", STATES, *runs).split() == ["Completed", "Failed", "Crashed"]
        log = run("-m", "prefect", "flow-run", "logs", runs[-1])
        assert "cannot become Completed: it is Failed" in log
        assert "out of paper" in log
        jobs = Job.list(kubeconfig=kubeconfig)
        # A flow that raises an error has run.
        assert sorted(job.last_phase for job in jobs) == ["Completed", "Completed", "Failed"]
        requests = [
            job.manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
            for job in jobs
        ]
        first, second = {"cpu": "0.5", "memory": "400Mi"}, {"cpu": "1", "memory": "512Mi"}
        assert sorted(requests, key=str) == [first, first, second]
