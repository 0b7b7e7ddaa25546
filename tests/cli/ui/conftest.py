"""Jobs of a module for the tests of the web page."""

from collections.abc import Iterator

import pytest

from tests.cli.run_commands import Run
from tests.controlplane.fixtures import real_control_plane

__all__ = ["gangs", "real_control_plane"]

GANG = """
apiVersion: batch.volcanopy.io/v1alpha1
kind: BatchJob
metadata: {{name: {name}, annotations: {{note: '<img src=x onerror="alert(1)">'}}}}
spec:
  minAvailable: {pods}
  tasks:
  - name: worker
    replicas: {pods}
    template:
      metadata: {{annotations: {{sim.volcanopy.io/duration: forever}}}}
      spec:
        containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: {cpu}}}}}}}]
"""


@pytest.fixture(scope="module")
def gangs(volcanopy: Run) -> Iterator[Run]:
    """A command on a cluster with a running gang of two pods, and one that is larger than the cluster."""
    volcanopy("job", "submit", "-f", "-", stdin=GANG.format(name="runs", pods=2, cpu=1))
    volcanopy("job", "submit", "-f", "-", stdin=GANG.format(name="waits", pods=9, cpu=8))
    assert volcanopy("job", "wait", "runs", "--for", "phase=Running", "--timeout", "60s").status == 0
    yield volcanopy
    volcanopy("job", "delete", "--all")
