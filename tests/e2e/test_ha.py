"""The chart on a real API server, two of each service under its own account: leaders are killed while gangs run.

By day `test_crashes.py` does the same on the embedded one, and `tests/charts/test_rbac.py` runs the chart's services there.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import pytest

from tests.charts.chart_processes import APISERVER_FLAGS, Installation, Pod
from tests.charts.rendering import CHART, NAMESPACE, RELEASE, need_helm, render, run_helm
from tests.controlplane.fixtures import chart_crds, need_programs
from tests.controlplane.plane import ControlPlane
from tests.e2e.leader_failures import run_gangs
from tests.nightly import nightly
from volcanopy.kube.client.kubeconfig import load_connection

pytestmark = [
    pytest.mark.real,
    nightly,
    pytest.mark.slow("installs the chart, ends six leaders and waits for a Lease each time"),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    need_programs()
    need_helm()
    with ControlPlane.start(crds=chart_crds(), apiserver_flags=APISERVER_FLAGS) as started:
        command = ["install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--create-namespace"]
        run_helm(*command, kubeconfig=started.kubeconfig)
        yield started


class Deployed:
    """A replica of one of the chart's Deployments. Started again, it is another pod, as it would be."""

    def __init__(self, installation: Installation, part: str, number: int) -> None:
        self._installation, self._part, self._number = installation, part, number
        self.pods: list[Pod] = []

    async def start(self) -> None:
        self.pods.append(await asyncio.to_thread(self._installation.start, self._part, self._number))

    async def ready(self, within: float = 150.0) -> None:
        await asyncio.to_thread(self.pods[-1].ready, within)

    def send(self, number: Signals) -> None:
        self.pods[-1].process.send_signal(number)

    async def over(self) -> int:
        """Wait until its present life is over; gives the status."""
        return await asyncio.to_thread(self.pods[-1].process.wait)

    @property
    def identities(self) -> list[str]:
        """Who it has been as a candidate."""
        lines = (line for pod in self.pods for line in pod.log.splitlines())
        return [json.loads(line)["identity"] for line in lines if '"waiting for leadership"' in line]


async def test_gangs_complete_and_leader_takeover_is_within_fifteen_seconds(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Admission runs twice as well, and every job passes through it. Nobody is refused anything."""
    with Installation(plane, render(), tmp_path) as installation:
        try:
            for number in range(2):
                admission = Deployed(installation, "admission", number)
                await admission.start()
                await admission.ready()
            services = {
                part: [Deployed(installation, part, number) for number in range(2)]
                for part in ("scheduler", "controller")
            }
            endings = await run_gangs(
                load_connection(plane.kubeconfig),
                "ha",
                services["scheduler"],
                services["controller"],
                ends=(SIGKILL, SIGKILL, SIGTERM),
                leases_in=NAMESPACE,
            )
        except BaseException:
            for pod in installation.pods:
                print(f"--- {pod.name}\n{pod.log[-3000:]}")
            raise
        said = {pod.folder.name: pod.log for pod in installation.pods}
    for ending in endings.values():
        assert max(ending.takeovers[SIGKILL]) < 15
        # Given back, not run out.
        assert max(ending.takeovers.get(SIGTERM, [0.0])) < 5
    forbidden = {name: re.findall(r".*(?:is forbidden|cannot).*", log) for name, log in said.items()}
    assert {name: lines for name, lines in forbidden.items() if lines} == {}
