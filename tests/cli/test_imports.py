"""What commands import: that, not what they do, is most of their time."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys
atexit.register(lambda: print("imported", *sys.modules, file=sys.stderr))
from volcanopy.cli.main import main
main()
"""
CLUSTER = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
"""
HEAVY = ("numpy", "pydantic", "kopf", "volcanopy.scheduler.core", "volcanopy.whatif")
MOST = 100
"""Modules of volcanopy."""


@pytest.mark.parametrize(
    "command",
    [
        "queue list",
        "queue get default",
        "queue tree",
        "explain queue default",
        "explain job a",
        "explain podgroup a",
        "job list",
        "job get a",
    ],
)
def test_a_command_that_reads_imports_neither_scheduler_nor_models(command: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()],
        env={"KUBECONFIG": str(tmp_path / "kubeconfig")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("imported ")]
    imported = line.split()[1:]
    assert [name for name in HEAVY if name in imported] == []
    assert sum(name.startswith("volcanopy.") for name in imported) <= MOST


def test_a_report_about_a_job_imports_no_scheduler_unless_it_searches_for_remedies() -> None:
    program = "import sys, volcanopy.client.explain.cluster_reads; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in (*HEAVY[:-1], "volcanopy.whatif.answer") if name in done.stdout.split()] == []


def test_kopf_imports_no_other_client_in_a_controller() -> None:
    """Its own imports are 132 modules, with those clients 546. They can be imported afterwards: no mark of their absence stays."""
    program = "import sys, volcanopy.services.controllers.kopf_operator; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "kopf" in imported
    assert [name for name in ("kubernetes", "pykube") if name in imported] == []


def test_only_an_object_of_volcano_imports_the_models_of_its_api() -> None:
    """They take as long as all other models together; a command such as `explain job` may never need them."""
    program = (
        "import sys; from volcanopy.api.scheduling import Queue; import volcanopy.admission.request, volcanopy.whatif.answer;"
        "before = 'volcanopy.api.volcano' in sys.modules;"
        "queue = Queue.read({'apiVersion': 'scheduling.volcano.sh/v1beta1', 'kind': 'Queue', 'metadata': {'name': 'q'}});"
        "print(before, queue.binding.name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "volcano"]


def test_models_that_are_not_used_are_not_built() -> None:
    """To build the validators of all models takes as long as to import numpy; a command or a service uses a part of them."""
    program = (
        "import volcanopy.client.explain.confirmed; from pydantic import BaseModel; kinds, models = [BaseModel], [];"
        "[kinds.extend(kind.__subclasses__()) or models.append(kind) for kind in kinds];"
        "own = [model for model in models if model.__module__.startswith('volcanopy.')];"
        "print(len(own), *(model.__name__ for model in own if model.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, *built = done.stdout.split()
    assert int(count) > 100
    assert len(built) <= 20
