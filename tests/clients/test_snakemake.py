"""Snakemake, unchanged, with the executor volcanopy on process nodes: `make workflow-clients` installs it in an environment of its own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.run_commands import local_cluster
from tests.clients.interpreters import interpreter, marks
from volcanopy import Job

ROOT = Path(__file__).resolve().parents[2]
PYTHON = interpreter("CLIENTS_PYTHON", "snakemake")
pytestmark = marks(PYTHON, "snakemake", "each job of a workflow starts Snakemake")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with local_cluster(path, *(["--run-as-root"] if os.getuid() == 0 else [])):
        yield path


def snakemake(kubeconfig: Path, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run Snakemake in a folder. It finds plugins in folders of the path only, not in editable installations."""
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT / "packages" / "backends")}
    command = (PYTHON, "-m", "snakemake", "--executor", "volcanopy", "--seconds-between-status-checks", "1", *words)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1500
    )


@pytest.mark.parametrize("example", ["simple", "groups"])
def test_the_workflows_that_snakemake_tests_executors_with_run(example: str, processes: Path, tmp_path: Path) -> None:
    find = "import importlib.util; print(importlib.util.find_spec('snakemake.common').submodule_search_locations[0])"
    package = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    folder = shutil.copytree(Path(package, "tests", "testcases", example), tmp_path / example)
    ended = snakemake(processes, folder, "--jobs", "3")
    assert ended.returncode == 0, ended.stderr
    assert (folder / "test3.out").exists()


def test_a_failed_rule_has_the_reason_and_the_end_of_its_log(processes: Path, tmp_path: Path) -> None:
    rule = 'rule broken:\n    output: "result"\n    threads: 2\n    resources: mem_mb=50, runtime=5\n'
    (tmp_path / "Snakefile").write_text(rule + '    shell: "echo out of paper; exit 3"\n')
    ended = snakemake(processes, tmp_path, "--jobs", "1")
    assert ended.returncode == 1
    assert "out of paper" in ended.stderr
    job = next(job for job in Job.list(kubeconfig=processes) if job.name.startswith("snakemake-broken-"))
    assert f'job "{job.name}" cannot become Completed: it is Failed' in ended.stderr
    spec = job.manifest["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "300M"}
    assert spec["activeDeadlineSeconds"] == 300


def test_a_rule_that_the_cluster_rejects_lets_the_others_end(processes: Path, tmp_path: Path) -> None:
    rules = (
        'rule all:\n    input: "fine", "lost"\n',
        'rule fine:\n    output: "fine"\n    shell: "sleep 2; echo > fine"\n',
    )
    rejected = 'rule lost:\n    output: "lost"\n    resources: queue="nowhere"\n    shell: "echo > lost"\n'
    (tmp_path / "Snakefile").write_text("".join((*rules, rejected)))
    ended = snakemake(processes, tmp_path, "--jobs", "2")
    assert ended.returncode == 1
    assert 'Not found: queue "nowhere"' in ended.stderr
    assert (tmp_path / "fine").exists()
