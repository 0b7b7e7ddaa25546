"""The rules of the house that a machine can check."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = sorted(path for folder in ("volcanopy", "bench", "hack") for path in (ROOT / folder).rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 450, 80
VAGUE = re.compile(r"(^|_)(util|utils|helper|helpers|common|misc|manager|managers)(_|$)")


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_one_subject_and_a_comfortable_size(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST_FILE, f"{path} has a second room in it"
    assert not VAGUE.search(path.stem), f"{path} does not tell what lives in it"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}:{node.lineno} {node.name} has {length} lines"


VIOLATIONS = {
    "floors": ("volcanopy/api/quantity.py", "import volcanopy.scheduler.model.resources\n"),
    "pure": ("volcanopy/jobcontroller/phases.py", "import socket\n"),
    "scheduler": ("volcanopy/scheduler/ledger/ledger.py", "import volcanopy.scheduler.session.session\n"),
    "plugins": ("volcanopy/scheduler/plugins/drf.py", "import volcanopy.scheduler.plugins.gang\n"),
    "job plugins": ("volcanopy/jobcontroller/plugins/mpi.py", "import volcanopy.jobcontroller.plugins.ssh\n"),
}


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_an_import_contract_fails_on_a_violation(contract: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "volcanopy", tmp_path / "volcanopy", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    place, line = VIOLATIONS[contract]
    source = (tmp_path / place).read_text()
    (tmp_path / place).write_text(source + "\n" + line)
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
        "--no-cache",
    ]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(rf"^{contract} BROKEN", run.stdout, re.MULTILINE), run.stdout


def test_the_clock_and_the_dice_are_banned_below_the_line(tmp_path: Path) -> None:
    folder = tmp_path / "volcanopy" / "scheduler"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (folder / "sinner.py").write_text(
        '"""A sin."""\n\nfrom datetime import UTC, datetime\nfrom uuid import uuid4\n\nNOW = datetime.now(UTC)\nNAME = uuid4()\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.count("TID251") >= 2, run.stdout
