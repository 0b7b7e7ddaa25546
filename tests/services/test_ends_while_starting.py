"""A service that waits for the first answer of the API server ends at SIGTERM: at once, and without an error."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.run_commands import COMMAND

SERVICES = ("scheduler", "controller", "admission", "agent --node n1")


def kubeconfig(folder: Path, port: int) -> Path:
    """The kubeconfig of an API server at this port."""
    path = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    users = [{"name": "u", "user": {}}]
    path.write_text(
        yaml.safe_dump({"current-context": "c", "contexts": [context], "clusters": [cluster], "users": users})
    )
    return path


@pytest.mark.parametrize("words", SERVICES)
def test_a_service_without_an_api_server_ends_at_sigterm(words: str, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nothing listens there
        environment = os.environ | {"KUBECONFIG": str(kubeconfig(tmp_path, closed.getsockname()[1]))}
        command = [*COMMAND, *words.split(), "--health-port", "0"]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                assert "serving health" in process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                output, _ = process.communicate(timeout=60)
            finally:
                process.kill()
    assert "Traceback" not in output
    assert process.returncode == 0
