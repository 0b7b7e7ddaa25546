"""Nextflow, unchanged, through volcanopy as Slurm's programs: `make workflow-clients` gets its jars from Maven."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run_commands import local_cluster
from volcanopy import Job

JARS = os.environ.get("NEXTFLOW_JARS", "")
pytestmark = [
    pytest.mark.skipif(
        not (JARS and shutil.which("java")),
        reason="needs Java and NEXTFLOW_JARS, a folder with Nextflow's jars: `make workflow-clients`",
    ),
    pytest.mark.slow("starts Nextflow"),
    pytest.mark.timeout(1800),
]
OPENED = ("lang", "io", "nio", "net", "util", "util.concurrent.locks", "util.regex")
HELLO = """
process sayHello {
  input:
    val x
  output:
    stdout
  script:
    \"\"\"
    echo '$x world!'
    \"\"\"
}
workflow { Channel.of('Bonjour', 'Ciao', 'Hello', 'Hola') | sayHello | view }
"""
"""nextflow-io/hello, the first example of Nextflow."""
FAILS = "process broken {\n script:\n '''\n echo out of paper >&2; exit 3\n '''\n}\nworkflow { broken() }\n"


def nextflow(folder: Path, kubeconfig: Path, script: str, config: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a workflow in a folder with the executor slurm, whose programs are links to volcanopy."""
    (folder / "main.nf").write_text(script)
    (folder / "nextflow.config").write_text(f"process.executor = 'slurm'\nexecutor.pollInterval = '1 sec'\n{config}")
    (folder / "bin").mkdir()
    for program in ("sbatch", "squeue", "scancel"):
        (folder / "bin" / program).symlink_to(Path(sys.executable).with_name("volcanopy"))
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
    command = ("java", *opened, "-cp", f"{JARS}/*", "nextflow.cli.Launcher", "run", "main.nf", "-ansi-log", "false")
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "NXF_OFFLINE": "true",
        "NXF_HOME": str(folder / "home"),
        "NXF_PLUGINS_DEFAULT": "false",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1500
    )


def test_a_workflow_of_nextflow_runs_and_a_failed_process_is_reported(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with local_cluster(kubeconfig, *(["--run-as-root"] if os.getuid() == 0 else [])):
        (tmp_path / "hello").mkdir()
        ended = nextflow(
            tmp_path / "hello", kubeconfig, HELLO, "process.cpus = 1\nprocess.memory = '200 MB'\nprocess.time = '5m'\n"
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert {f"{word} world!" for word in ("Bonjour", "Ciao", "Hello", "Hola")} <= set(ended.stdout.splitlines())
        jobs = Job.list(kubeconfig=kubeconfig)
        assert [job.last_phase for job in jobs] == ["Completed"] * 4
        assert {job.manifest["spec"]["activeDeadlineSeconds"] for job in jobs} == {300}
        (tmp_path / "fails").mkdir()
        ended = nextflow(tmp_path / "fails", kubeconfig, FAILS)
        assert ended.returncode == 1
        assert "terminated with an error exit status (3)" in ended.stdout
        assert "out of paper" in ended.stdout
