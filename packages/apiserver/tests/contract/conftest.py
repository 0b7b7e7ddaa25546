"""Both servers."""

from contract.pair import pair
from tests.controlplane.fixtures import real_control_plane

__all__ = ["pair", "real_control_plane"]
