"""What a release checks and writes; the whole of it runs by ``make release``."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hack import release
from hack.distributions import ROOT
from hack.release import Origin

ORIGIN = Origin("Owner/volcanopy", "1.2.3")
CHART = {"version": "1.2.3", "appVersion": "1.2.3"}
CHANGELOG = "# Changelog\n\n## 1.2.3 - 2026-01-02\n"


def test_a_consistent_release_has_no_problem() -> None:
    assert release.problems("1.2.3", CHANGELOG, CHART, {"pyproject.toml": "1.2.3"}) == []


@pytest.mark.parametrize(
    ("changelog", "chart", "others", "problem"),
    [
        (
            "## 1.2.3\n",
            CHART,
            {},
            "CHANGELOG.md has no heading `## 1.2.3 - YYYY-MM-DD`: add it with the changes of changelog.d",
        ),
        (
            CHANGELOG,
            CHART | {"appVersion": "1.2.2"},
            {},
            "appVersion of charts/volcanopy/Chart.yaml is 1.2.2: set it to 1.2.3",
        ),
        (CHANGELOG, CHART, {"p/pyproject.toml": "2"}, "version of p/pyproject.toml is 2: set it to 1.2.3"),
    ],
)
def test_an_inconsistent_version_is_named_with_its_fix(
    changelog: str, chart: dict[str, str], others: dict[str, str], problem: str
) -> None:
    assert release.problems("1.2.3", changelog, chart, others) == [problem]


def test_the_versions_of_this_repository_agree() -> None:
    release.check_versions()


def test_the_chart_names_its_image_kinds_and_icon() -> None:
    metadata = release.chart_metadata({"name": "volcanopy", **CHART}, ORIGIN)
    kinds = yaml.safe_load(metadata["annotations"]["artifacthub.io/crds"])
    assert {
        "kind": "BatchJob",
        "version": "v1alpha1",
        "name": "batchjobs.batch.volcanopy.io",
        "displayName": "BatchJob",
    } in kinds
    images = yaml.safe_load(metadata["annotations"]["artifacthub.io/images"])
    assert images == [{"name": "volcanopy", "image": "ghcr.io/owner/volcanopy:1.2.3"}]
    path = metadata["icon"].partition("/v1.2.3/")[2]
    assert (ROOT / path).is_file()


def test_the_archive_of_the_kubectl_plugin_has_the_digest_of_its_manifest(tmp_path: Path) -> None:
    first = release.package_plugin(tmp_path, ORIGIN).read_bytes()
    platform = yaml.safe_load((tmp_path / "volcanopy.krew.yaml").read_text())["spec"]["platforms"][0]
    assert release.package_plugin(tmp_path, ORIGIN).read_bytes() == first
    assert platform["uri"].endswith("/v1.2.3/kubectl-volcanopy.zip")
    assert len(platform["sha256"]) == 64


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("volcanopy", "volcanopy job list"),
        ("uvx", "uvx --from volcanopy==1.2.3 volcanopy job list"),
        ("pipx", "pipx run --spec volcanopy==1.2.3 volcanopy job list"),
        (
            None,
            "kubectl volcanopy: neither volcanopy nor uv nor pipx is installed: install pipx, or volcanopy with pip",
        ),
    ],
)
def test_the_kubectl_plugin_runs_what_is_installed(program: str | None, output: str, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-volcanopy"
    plugin.write_text(release.krew_program("1.2.3"))
    if program is not None:
        (tmp_path / program).write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
        os.chmod(tmp_path / program, 0o755)
    done = subprocess.run(
        ["/bin/sh", plugin, "job", "list"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout + done.stderr).strip() == output
    assert done.returncode == (0 if program else 1)
