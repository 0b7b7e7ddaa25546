"""The API servers of a test that runs on either: by day one of them, by night the other one too.

End-to-end tests run on the real one by day where it is built; tests of one service or writer, of which there are more, on the embedded one.
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
EMBEDDED_BY_DAY = ["embedded", pytest.param("real", marks=[pytest.mark.real, nightly])]
"""The same for the tests of one service or writer."""
