"""Where helm comes from: the PATH, the cache, Go, or nowhere, which is said."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.helm import helm_version

ROOT = Path(__file__).parents[2]
# A stand-in for the compiler: it writes a program where it is told to.
GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"; chmod +x "$2"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has neither helm nor Go nor a cache."""
    for name in ("sh", "chmod"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}


def run(environment: Mapping[str, str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "hack.helm"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def built(home: Path) -> list[Path]:
    return list(home.glob(".cache/volcanopy/helm/*/helm"))


def test_without_go_the_error_is_one_line_and_ci_fails(machine: dict[str, str]) -> None:
    code, said = run(machine)
    assert (code, said.count("\n")) == (0, 1)
    assert f"no Go on PATH to build helm {helm_version()} with" in said
    assert run(machine | {"CI": "true"})[0] == 1


def test_helm_is_built_once(machine: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "bin" / "go", GO)
    assert run(machine)[0] == 0
    assert len(built(tmp_path)) == 1
    assert os.access(built(tmp_path)[0], os.X_OK)
    assert run(machine) == (0, "")


@pytest.mark.parametrize(("release", "used"), [(helm_version(), True), ("v2.17.0", False)])
def test_helm_on_the_path_is_used_if_it_has_the_same_version(
    machine: dict[str, str], tmp_path: Path, release: str, used: bool
) -> None:
    program(tmp_path / "bin" / "helm", f"#!/bin/sh\necho {release}+g1234567\n")
    assert (run(machine) == (0, "")) == used
