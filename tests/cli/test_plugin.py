"""``kubectl volcanopy``: the real kubectl finds the plugin, and all is as without it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.run_commands import Run

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.fixture
def kubectl(kubectl_program: Path, tmp_path: Path, kubeconfig: Path):  # type: ignore[no-untyped-def]
    """kubectl, with the executables that the package installs on its path."""
    for name, target in tomllib.loads(PROJECT.read_text())["project"]["scripts"].items():
        module, _, function = target.partition(":")
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(kubectl_program), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    return run


def test_kubectl_lists_jobs_through_the_plugin(kubectl, volcanopy: Run) -> None:  # type: ignore[no-untyped-def]
    assert "kubectl-volcanopy" in kubectl("plugin", "list", "--name-only").stdout
    made = kubectl("volcanopy", "job", "run", "--name", "plugged", "--image", "busybox", "--", "true")
    assert made.stdout == "batchjob.batch.volcanopy.io/plugged created\n"
    assert kubectl("volcanopy", "job", "wait", "plugged").returncode == 0
    listed = kubectl("volcanopy", "job", "list", "-o", "name")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, volcanopy("job", "list", "-o", "name").out, "")
    assert kubectl("get", listed.stdout.strip(), "-o", "name").stdout == listed.stdout, "the names are kubectl's own"


def test_the_plugin_is_called_kubectl_volcanopy_in_its_help(kubectl) -> None:  # type: ignore[no-untyped-def]
    assert kubectl("volcanopy", "job", "--help").stdout.startswith("Usage: kubectl volcanopy job ")
    wrong = kubectl("volcanopy", "job", "list", "--nope")
    assert wrong.returncode == 2
    assert "See `kubectl volcanopy job list --help`" in wrong.stderr
