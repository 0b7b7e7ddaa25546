"""The API servers of a test that runs on either: the real one by day where it is built, the embedded one there by night.

That both answer alike is what packages/apiserver/tests/contract and tests/contract check each time, on both.
"""

import pytest

from hack.controlplane import assets
from tests.nightly import nightly

SERVERS = [
    pytest.param("embedded", marks=[nightly] if assets() is not None else []),
    pytest.param("real", marks=pytest.mark.real),
]
"""The parameters of a fixture; without the programs of the real one its cases are skipped, as `real_control_plane` says."""
