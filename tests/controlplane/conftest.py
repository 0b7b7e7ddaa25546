"""A control plane for the tests of its own harness, with a kind of its own: they hold whatever the chart says."""

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
