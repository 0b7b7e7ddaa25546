"""`real_control_plane`: one real control plane for a test session (for each worker of one, under xdist).

In the conftest of the tests that use it:

    from tests.controlplane.fixtures import real_control_plane

    __all__ = ["real_control_plane"]

and in a test:

    @pytest.mark.real
    def test_something(real_control_plane: ControlPlane) -> None:
        real_control_plane.kubeconfig  # a Path; also .url, .ca, .token, .kubeconfig_for(user, groups), .request(...)

Its CustomResourceDefinitions are those of the chart. The tests of a session share it: use a namespace of your own.
Where the programs are not built the test is skipped with the reason; with CI set it fails.
"""

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane import assets, kubectl
from tests.controlplane.plane import ControlPlane

CHART_CRDS = Path(__file__).parents[2] / "charts" / "volcanopy" / "crds"
LACKING = "kube-apiserver is not built: run `make controlplane`"


@functools.cache
def _of_this_process() -> ControlPlane:
    # Kept here, because a fixture that several conftests import is several fixtures to pytest.
    return ControlPlane.start(crds=chart_crds())


def chart_crds() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions in the chart, by file name."""
    return [chart_crd(path) for path in chart_files()]


def chart_files() -> list[Path]:
    """Return the files of the chart that contain one CustomResourceDefinition each."""
    return sorted(CHART_CRDS.glob("*.yaml"))


def chart_crd(path: Path) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a file. The largest take half a second to read, more without libyaml."""
    definition: dict[str, Any] = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return definition


def need_programs() -> None:
    """Skip the test that asks, or fail it in CI, where the programs are lacking."""
    if assets() is None:
        if os.environ.get("CI"):
            pytest.fail(LACKING)
        pytest.skip(LACKING)


@pytest.fixture(scope="session")
def real_control_plane() -> Iterator[ControlPlane]:
    """A running control plane that serves the chart's kinds, shared by the session's tests."""
    need_programs()
    plane = _of_this_process()
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    """Where kubectl is; skips the test that asks, or fails it in CI, if there is none."""
    result = kubectl()
    if result is None:
        if os.environ.get("CI"):
            pytest.fail("kubectl is neither on the PATH nor built")
        pytest.skip("kubectl is neither on the PATH nor built: run `make controlplane`")
    return result
