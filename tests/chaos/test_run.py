"""A short run of chaos on an embedded cluster, with every fault that needs no process of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.__main__ import TargetOptions, main
from chaos.faults import FAULTS
from chaos.judge import Judge
from chaos.proxy import FaultProxy
from chaos.run import Outcome, RunSettings, _submit, run
from chaos.site import Site
from chaos.stage import StageSettings, site_of
from embedded_apiserver.server import ApiServer
from volcanopy.api.crd import crds
from volcanopy.client.errors import CommandError
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import Unavailable
from volcanopy.kube.client.kinds import Kind
from volcanopy_local.cluster import Components, Parts, connection_to
from volcanopy_local.simulated import nodes


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site whose services are in this process, each of their requests behind a proxy."""
    async with AsyncExitStack() as stack:
        server = await ApiServer.start()
        stack.push_async_callback(server.stop)
        connection = connection_to(server)
        async with Client(connection) as client:
            await Creator(client).create([*crds(), *nodes.manifests(3)])
        proxy = await stack.enter_async_context(FaultProxy.open(connection, Random(1)))
        behind = Connection(proxy.url)
        components = await stack.enter_async_context(Components(behind, Parts(admission=None)))
        opened = await stack.enter_async_context(site_of(connection, StageSettings()))
        opened.proxies, opened.pace = [proxy], 0.1
        opened.kubelet, opened.node_names = components.kubelet, ["node-1", "node-2", "node-3"]
        yield opened


async def test_a_run_ends_all_jobs_and_breaks_no_rule(site: Site) -> None:
    outcome = await run(site, RunSettings(seconds=3, jobs=5, gap=(0.05, 0.15), settle=600))
    assert outcome.faults == []
    assert outcome.submitted == 5
    assert outcome.injected
    assert sum(outcome.ends.values()) >= 5 - outcome.injected["delete a job"]
    assert "kill a service" in outcome.missing


def test_each_fault_says_what_it_lacks() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.__doc__ and fault.name for fault in FAULTS)
    nowhere = Site(Client(Connection("http://127.0.0.1:9")), Judge("x"), Random(1))
    reasons = {fault.name: fault.missing(nowhere) for fault in FAULTS}
    possible = {name for name, reason in reasons.items() if not reason}
    assert possible == {
        "delete a pod by hand",
        "evict a pod",
        "delete a PodGroup by hand",
        "edit a job",
        "delete a job",
    }
    assert "--embedded" in reasons["kill the API server"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TargetOptions(), "--context: required"),
        (TargetOptions(test_cluster=True), "--context: required"),
        (TargetOptions(embedded=True, context="test"), "--embedded: uses no other cluster"),
        (TargetOptions(other_python=Path("python")), "--other-python: needs services that run here"),
        (TargetOptions("test", test_cluster=True, pause_process=["etcd"]), "--pause-process: 'etcd' must be NAME=PID"),
    ],
)
def test_a_cluster_must_be_named(options: TargetOptions, message: str) -> None:
    def check() -> None:
        options.check()
        options.pids()

    with pytest.raises(CommandError, match=message) as raised:
        check()
    assert raised.value.status == 2


def test_a_cluster_must_be_confirmed_as_a_test_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "test"]) == 2
    assert capsys.readouterr().err == (
        "chaos: --test-cluster: required: pods, nodes and services of context test may be lost\n"
    )


async def test_a_job_that_is_rejected_for_a_while_does_not_delay_the_next() -> None:
    """The first job is rejected until the other two are there."""
    created: list[str] = []

    class Rejecting(Client):
        async def create(self, kind: Kind[Any], namespace: str | None, body: Any, **_: Any) -> Any:
            name = body["metadata"]["name"]
            if name == "chaos-0000" and len(created) < 2:
                raise Unavailable(503, "ServiceUnavailable")
            created.append(name)
            return body

    site = Site(Rejecting(Connection("http://127.0.0.1:9")), Judge("x"), Random(1))
    outcome = Outcome()
    async with asyncio.timeout(60):
        await _submit(site, RunSettings(seconds=0.03, jobs=3), outcome)
    assert created == ["chaos-0001", "chaos-0002", "chaos-0000"]
    assert (outcome.submitted, site.judge.faults) == (3, [])
