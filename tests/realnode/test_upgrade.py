"""An upgrade and a rollback of the chart while jobs run and are submitted."""

import pytest

from hack.realnode import product
from tests.realnode.cluster_client import SERVE, ClusterClient, job, shell, task


@pytest.mark.slow("every part of the product is replaced twice")
def test_jobs_go_on_during_an_upgrade_and_a_rollback(client: ClusterClient) -> None:
    client.submit(job("long", task("t", 2, shell(SERVE))))
    client.until(lambda: client.phase("long") == "Running")
    before = client.running("long")
    try:
        product.deploy(client.cluster, "scheduler.verbose=true", "controller.verbose=true", "admission.verbose=true")
        client.submit(job("upgraded", task("t", 2, shell("true"))))
        client.ends("upgraded", "Completed")
    finally:
        product.run_helm(client.cluster, "rollback", product.RELEASE, "--wait", f"--timeout={product.TIMEOUT}")
    client.submit(job("rolled-back", task("t", 2, shell("true"))))
    client.ends("rolled-back", "Completed")
    assert client.running("long") == before


def test_the_tests_of_the_chart_pass(client: ClusterClient) -> None:
    output = product.run_helm(client.cluster, "test", product.RELEASE, f"--timeout={product.TIMEOUT}")
    assert "Phase:          Succeeded" in output, output
