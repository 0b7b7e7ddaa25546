"""Warnings of the API server are printed to standard error, as kubectl prints them."""

from pathlib import Path

from tests.cli.fake_api_server import JOBS, a_job, fake_api_server
from tests.cli.run_commands import run_in_process


def test_warnings_of_a_created_job_are_printed(tmp_path: Path) -> None:
    with fake_api_server() as server:
        server.answers["POST", JOBS.format("default")] = (201, a_job("hello", "Pending"))
        server.warnings = ("spec.tasks[0]: larger than every node",)
        place = str(server.kubeconfig(tmp_path))
        done = run_in_process("job", "run", "--name", "hello", "--image", "x", "--kubeconfig", place)
    assert done.status == 0, done
    assert done.out == "batchjob.batch.volcanopy.io/hello created\n"
    assert done.err == "Warning: spec.tasks[0]: larger than every node\n"
