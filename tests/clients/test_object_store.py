"""An object store of S3, served by moto, keeps the functions and results of an Executor: `make workflow-clients` installs both."""

import os
import subprocess
from pathlib import Path

from tests.cli.run_commands import local_cluster
from tests.clients.interpreters import interpreter, marks

PYTHON = interpreter("CLIENTS_PYTHON", "moto")
pytestmark = marks(PYTHON, "moto, s3fs", "each call starts Python and a client of S3")
PROGRAM = """
import os
import fsspec
from moto.server import ThreadedMotoServer
from volcanopy import Checkpoint, Executor

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
fsspec.filesystem("s3").mkdir("research")

def total(numbers):
    return sum(numbers)

def fail():
    raise LookupError("out of paper")

def count():
    checkpoint = Checkpoint()
    runs = checkpoint.load(default=0) + 1
    checkpoint.save(runs)
    if runs < 3:
        checkpoint.requeue()
    return runs

with Executor("s3://research/results", cpu=0.1) as executor:
    print(executor.submit(total, [1, 2, 3]).result(timeout=400))
    print(list(executor.map(pow, [2, 3], [3, 2], timeout=400)))
    print(repr(executor.submit(fail).exception(timeout=400)))
    print(executor.submit(count).result(timeout=400))
    job = executor.submit(abs, -7).element.job
with Executor("s3://research/results") as other:
    print(other.attach(job)[0].result(timeout=400))
server.stop()
"""


def test_results_exceptions_and_checkpoints_are_kept_in_an_object_store(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "AWS_ACCESS_KEY_ID": "researcher",
        "AWS_SECRET_ACCESS_KEY": "of-the-test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with local_cluster(kubeconfig, *(["--run-as-root"] if os.getuid() == 0 else [])):
        ended = subprocess.run(
            (PYTHON, "-c", PROGRAM),
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=1500,
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["6", "[8, 9]", "LookupError('out of paper')", "3", "7"]
