"""Sources of the real control plane's programs: a given folder, the cache, a build with Go, or none."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.controlplane import PROGRAMS, assets, cache_folder, kubectl

ROOT = Path(__file__).parents[2]
# A replacement for the compiler: it records that it ran, waits a moment, and writes a program to the given path.
GO = """#!/bin/sh
echo "$@" >> "$GO_NOTES"
while [ "$1" != -o ]; do shift; done
sleep 0.3
echo some/package >&2
printf '#!/bin/sh\\n' > "$2"; chmod +x "$2"
"""
BROKEN_GO = "#!/bin/sh\necho cmd/controlplane/main.go:7: no such thing >&2\nexit 1\n"


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has a shell's programs and kubectl, but neither Go nor a cache."""
    folder = tmp_path / "bin"
    program(folder / "kubectl")
    for name in ("sh", "sleep", "chmod"):
        (folder / name).symlink_to(f"/bin/{name}")
    return {"PATH": str(folder), "HOME": str(tmp_path), "GO_NOTES": str(tmp_path / "notes")}


def start(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hack.controlplane"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def run(environment: Mapping[str, str]) -> tuple[int, str]:
    process = start(environment)
    _out, said = process.communicate()
    return process.returncode, said


def built(home: Path) -> list[Path]:
    return [path for name in PROGRAMS for path in (home / ".cache/volcanopy/controlplane").glob(f"*/{name}")]


def test_without_go_one_line_reports_the_skip(machine: dict[str, str]) -> None:
    code, said = run(machine)
    assert code == 0
    assert said.count("\n") == 1
    assert "no Go on PATH to build Kubernetes v" in said
    assert "skipped" in said


def test_without_go_ci_fails(machine: dict[str, str]) -> None:
    code, said = run(machine | {"CI": "true"})
    assert code == 1
    assert "CI must test on it" in said


def test_concurrent_callers_build_once(machine: dict[str, str], tmp_path: Path) -> None:
    """The second waits for the build of the first and uses its result; a third builds nothing."""
    program(tmp_path / "bin" / "go", GO)
    callers = [start(machine), start(machine)]
    said = [caller.communicate()[1] for caller in callers]
    assert [caller.returncode for caller in callers] == [0, 0]
    assert sorted("waiting" in text for text in said) == [False, True]
    assert len(built(tmp_path)) == len(PROGRAMS)
    assert (tmp_path / "notes").read_text().count("./cmd/") == 1
    assert run(machine) == (0, "")


def test_kubectl_is_built_if_missing(machine: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "bin" / "go", GO)
    (tmp_path / "bin" / "kubectl").unlink()
    assert run(machine)[0] == 0
    commands = [line.split()[-1] for line in (tmp_path / "notes").read_text().splitlines()]
    assert commands == ["./cmd/controlplane", "./cmd/kubectl"]
    assert run(machine) == (0, "")


@pytest.mark.parametrize(("ci", "expected"), [({}, 0), ({"CI": "1"}, 1)])
def test_a_failed_build_leaves_nothing_and_shows_its_error(
    machine: dict[str, str], tmp_path: Path, ci: dict[str, str], expected: int
) -> None:
    program(tmp_path / "bin" / "go", BROKEN_GO)
    code, said = run(machine | ci)
    assert code == expected
    assert "main.go:7: no such thing" in said
    assert built(tmp_path) == []


def test_a_given_folder_is_used(machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    for name in (*PROGRAMS, "kubectl"):
        program(given / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    monkeypatch.setenv("PATH", os.devnull)
    assert assets() == given
    assert kubectl() == given / "kubectl"
    assert run(machine | {"KUBEBUILDER_ASSETS": str(given)}) == (0, "")


def test_a_given_folder_without_a_program_is_named_and_skipped(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    program(given / "etcd")
    program(given / "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    assert assets() in (None, cache_folder())
    _code, said = run(machine | {"KUBEBUILDER_ASSETS": str(given)})
    assert said.startswith(f"control plane: KUBEBUILDER_ASSETS={given} lacks kube-controller-manager:")
