"""The command itself: help, version, and errors of wrong usage."""

from pathlib import Path

import yaml

from tests.cli.run_commands import run_in_process, run_program
from volcanopy.api.crd import RESOURCES

ROOT = Path(__file__).resolve().parents[2]


def test_help_names_every_command() -> None:
    run = run_program("--help")
    assert run.returncode == 0
    for command in ("local", "plan", "scheduler", "controller", "admission", "crd", "version"):
        assert command in run.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    run = run_in_process("plam")
    assert run.status == 2
    assert "No such command 'plam'" in run.err
    assert "Traceback" not in run.err


def test_a_service_without_a_cluster_fails_with_one_sentence(tmp_path: Path) -> None:
    run = run_program("scheduler", "--kubeconfig", str(tmp_path / "none"))
    assert run.returncode == 1
    assert run.stderr.startswith("volcanopy: ")
    assert run.stderr.count("\n") == 1
    assert "Traceback" not in run.stderr


def test_crd_writes_the_definitions_of_the_chart(tmp_path: Path) -> None:
    run = run_in_process("crd", "--output-dir", str(tmp_path))
    assert run.status == 0
    chart = ROOT / "charts" / "volcanopy" / "crds"
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in chart.iterdir()}
    for file in tmp_path.iterdir():
        assert file.read_text() == (chart / file.name).read_text(), f"{file.name}: run make golden"


def test_crd_prints_all_definitions_as_one_stream() -> None:
    printed = list(yaml.load_all(run_in_process("crd").out, yaml.CSafeLoader))
    assert {definition["spec"]["names"]["kind"] for definition in printed} == {resource.kind for resource in RESOURCES}
