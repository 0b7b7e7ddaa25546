"""Faults of pressure end with what they have started, also when they are cancelled."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from chaos import pressure
from chaos.__main__ import main
from chaos.judge import Judge
from chaos.pressure import BusyMachine, EtcdCompacted, EtcdFull, Overload
from chaos.processes import RestartedProcess
from chaos.proxy import FaultProxy
from chaos.site import Site
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NoAnswer
from volcanopy_local.process.measurements import descendants

NOWHERE = Connection("http://127.0.0.1:9")


@pytest.fixture
def site() -> Site:
    """A site with no cluster, on which faults last as long as a test lets them."""
    return Site(Client(NOWHERE), Judge("x"), Random(1), pace=1000.0)


@pytest.fixture
async def etcd() -> AsyncIterator[tuple[str, list[tuple[str, Any]]]]:
    """The address of a server that answers as etcd, and the calls it has received."""
    calls: list[tuple[str, Any]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        calls.append((request.path, await request.json()))
        return web.json_response({"header": {"revision": "42"}})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "http://{}:{}".format(*runner.addresses[0][:2]), calls
    await runner.cleanup()


async def until(task: asyncio.Task[bool], holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            assert not task.done(), task
            await asyncio.sleep(0.01)


async def cancelled(task: asyncio.Task[bool]) -> None:
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_busy_machine_has_many_programs_that_end_with_the_fault(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pressure, "PROGRAMS", 2)
    site.services = [RestartedProcess("service", (), tmp_path / "log")]
    before = len(list(descendants(os.getpid())))
    task = asyncio.create_task(BusyMachine().inject(site))
    await until(task, lambda: len(list(descendants(os.getpid()))) == before + 2)
    await cancelled(task)
    assert len(list(descendants(os.getpid()))) == before


async def test_an_overloaded_api_server_rejects_requests_of_all_services_until_the_fault_ends(site: Site) -> None:
    async with FaultProxy.open(NOWHERE, Random(1)) as first, FaultProxy.open(NOWHERE, Random(1)) as second:
        site.proxies = [first, second]
        task = asyncio.create_task(Overload().inject(site))
        await until(task, lambda: site.busy == {"network"})
        assert {(proxy._delay * 3, proxy._storm) for proxy in site.proxies} == {(5.0, (429, 0.5))}
        await cancelled(task)
        assert {(proxy._delay, proxy._storm) for proxy in site.proxies} == {(0.0, None)}
        assert site.busy == set()


async def test_a_full_etcd_has_its_alarm_until_the_fault_ends(
    site: Site, etcd: tuple[str, list[tuple[str, Any]]]
) -> None:
    site.etcd, calls = etcd
    task = asyncio.create_task(EtcdFull().inject(site))
    await until(task, lambda: len(calls) == 1)
    await cancelled(task)
    alarm = "/v3/maintenance/alarm"
    assert calls == [(alarm, {"action": action, "alarm": "NOSPACE"}) for action in ("ACTIVATE", "DEACTIVATE")]


async def test_etcd_is_compacted_to_its_newest_revision(site: Site, etcd: tuple[str, list[tuple[str, Any]]]) -> None:
    site.etcd, calls = etcd
    assert await EtcdCompacted().inject(site)
    assert calls[-1] == ("/v3/kv/compaction", {"revision": "42", "physical": True})


async def test_an_etcd_that_does_not_answer_is_an_error_of_a_cluster(site: Site) -> None:
    site.etcd = NOWHERE.url
    with pytest.raises(NoAnswer, match=r"127\.0\.0\.1:9"):
        await EtcdCompacted().inject(site)


def test_a_fault_that_does_not_exist_is_named_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--embedded", "--fault", "rain"]) == 2
    assert capsys.readouterr().err.startswith("chaos: --fault: 'rain' is no fault: use one of kill a service, ")
