"""The web page in a browser, through its Service: jobs, a job with the log of a container, queues, nodes and a what-if question."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hack.realnode import product
from hack.realnode.cluster import Cluster
from tests.cli.ui.chromium import browser, needs_browser
from tests.realnode.cluster_client import SERVE, ClusterClient, job, shell, task

pytestmark = needs_browser


@pytest.fixture
def address(running_cluster: Cluster) -> Iterator[str]:
    """Return the address of a port that is forwarded to the Service, as users open the page."""
    forward = [f"--kubeconfig={running_cluster.kubeconfig}", f"--namespace={product.NAMESPACE}", "port-forward"]
    with subprocess.Popen(
        ["kubectl", *forward, "service/volcanopy-ui", ":80"], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        try:
            yield f"http://{program.stdout.readline().split()[2]}/"
        finally:
            program.terminate()


async def opened(tab: Any, address: str, page: str) -> None:
    """Open a page and wait until it has its content."""
    await tab.goto(f"{address}#/{page}")
    await tab.locator("main [data-ready]").wait_for()


async def test_the_page_shows_jobs_logs_queues_and_nodes(client: ClusterClient, address: str) -> None:
    waiting = task("t", 2, shell("true", cpu="500"))
    client.submit(job("shown", task("t", 2, shell(f"echo first line; {SERVE}"))), job("large", waiting))
    client.until(lambda: client.phase("shown") == "Running")
    async with browser() as tab:
        await opened(tab, address, "jobs")
        await tab.get_by_label("Filter").fill(f"{client.namespace}/")
        for name in ("shown", "large"):
            await tab.get_by_role("link", name=name, exact=True).wait_for()
        await tab.get_by_role("link", name="shown", exact=True).click()
        await tab.get_by_role("button", name="shown-t-0").click()
        await tab.get_by_label("log of shown-t-0").get_by_text("first line").wait_for()
        await opened(tab, address, f"jobs/{client.namespace}/large")
        await tab.get_by_text("exceeds the capacity of the cluster").first.wait_for()
        await opened(tab, address, "queues")
        await tab.get_by_text("default").first.wait_for()
        await opened(tab, address, "nodes")
        nodes = await tab.locator("canvas").get_attribute("aria-label")
        assert nodes.startswith(f"{len(client.cluster.node_names())} nodes, ")
