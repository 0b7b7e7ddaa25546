"""The programs and the server that the tests of the chart share with others."""

from tests.controlplane.fixtures import kubectl_program, real_control_plane

__all__ = ["kubectl_program", "real_control_plane"]
