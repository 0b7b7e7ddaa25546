"""The Dockerfile and what runs its steps without an engine agree; what it builds from is little; who it runs as is nobody."""

from pathlib import Path

import pytest

from hack.dockerfile import DockerfileError, Step, parse, sent
from hack.image import BASES
from tests.charts.rendering import one, render

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
RULES = (ROOT / ".dockerignore").read_text().splitlines()


def test_every_line_of_the_dockerfile_becomes_a_step() -> None:
    stages = parse(TEXT)
    assert [stage.name for stage in stages] == ["build", ""]
    lines = [line.split()[0] for line in TEXT.splitlines() if line and not line.startswith("#")]
    done = (
        ["ARG"]
        + ["FROM" for _ in stages]
        + [step.kind for stage in stages for step in stage.steps]
        + ["ENTRYPOINT", "CMD"]
    )
    assert sorted(lines) == sorted(done)
    assert {stage.base for stage in stages} <= BASES.keys()
    assert Step("COPY", ("/opt/volcanopy", "/opt/volcanopy"), "build") in stages[-1].steps


def test_an_unknown_dockerfile_instruction_is_an_error() -> None:
    for line in ("ADD x /x", "COPY --chown=1 x /x", "ENV a b", "HEALTHCHECK NONE"):
        with pytest.raises(DockerfileError, match="line 2: "):
            parse(f"FROM base\n{line}\n")


def test_the_image_runs_as_the_user_of_the_chart_and_its_subcommands_are_the_services() -> None:
    image = parse(TEXT)[-1]
    assert image.entrypoint == ("volcanopy",)
    for part in ("scheduler", "controller", "admission"):
        spec = one(render(), "Deployment", f"volcanopy-{part}")["spec"]["template"]["spec"]
        assert image.user == f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}"
        (container,) = spec["containers"]
        assert container["args"][0] == part
        assert "command" not in container


def test_the_build_context_contains_only_the_packages_of_the_image(tmp_path: Path) -> None:
    for name in (
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "requirements.lock",
        "packages/policies/pyproject.toml",
        "packages/policies/volcanopy_policies/a.py",
        "volcanopy/a.py",
        "volcanopy/api/py.typed",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in (
        ".git/config",
        "tests/test_a.py",
        ".venv/bin/python",
        "some.kubeconfig",
        "volcanopy/__pycache__/a.pyc",
        "volcanopy/api/a.pyc",
        "packages/lab/volcanopy_lab/a.py",
        "packages/policies/build/a.py",
        "packages/policies/volcanopy_policies/__pycache__/a.pyc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    result = [str(path) for path in sent(tmp_path, RULES)]
    assert result == [
        "LICENSE",
        "README.md",
        "packages/policies/pyproject.toml",
        "packages/policies/volcanopy_policies/a.py",
        "pyproject.toml",
        "requirements.lock",
        "volcanopy/a.py",
        "volcanopy/api/py.typed",
    ]
