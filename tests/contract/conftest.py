"""Both API servers, as in the tests of the embedded one."""

from contract.pair import pair
from tests.controlplane.fixtures import real_control_plane

__all__ = ["pair", "real_control_plane"]
