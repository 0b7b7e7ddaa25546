"""The control plane that the tests of security share with others."""

from tests.controlplane.fixtures import kubectl_program, real_control_plane

__all__ = ["kubectl_program", "real_control_plane"]
