"""A control plane for the tests of the harness, with its own kind, independent of the chart."""

from collections.abc import Iterator

import pytest

from tests.controlplane.fixtures import need_programs, real_control_plane
from tests.controlplane.kinds import OWNER
from tests.controlplane.plane import ControlPlane

__all__ = ["plane", "real_control_plane"]


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    need_programs()
    with ControlPlane.start(crds=[OWNER]) as started:
        yield started
