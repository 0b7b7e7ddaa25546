"""A process serves Volcano's API where its kinds are defined, and ends when they are defined later."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from embedded_apiserver.server import ApiServer
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY
from volcanopy.api.volcano_crds import crds_of
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.services.process.installed_apis import InstalledApis
from volcanopy.services.process.supervisor import PartFailedError, Supervisor
from volcanopy_local.cluster import connection_to


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = await ApiServer.start(port=0)
    try:
        async with Client(connection_to(server)) as client:
            yield client
    finally:
        await server.stop()


async def test_a_process_ends_when_the_definitions_of_a_further_api_appear(client: Client) -> None:
    apis, supervisor = InstalledApis(ApiViews(client, BINDINGS), period=0.01), Supervisor(period=0.01)
    assert (await apis.installed(asyncio.Event())).bindings == (VOLCANOPY,)
    apis.watch(supervisor)
    supervising = asyncio.create_task(supervisor.run())
    kinds = ("batch.", "scheduling.", "bus.")
    part, *whole = (crd for crd in crds_of((VOLCANO,)) if crd["spec"]["group"].startswith(kinds))
    await Creator(client).create([part])
    assert not supervising.done()
    await Creator(client).create(whole)
    with pytest.raises(PartFailedError, match="definitions of the API volcano were installed"):
        await supervising
    assert (await InstalledApis(ApiViews(client, BINDINGS)).installed(asyncio.Event())).bindings == BINDINGS


async def test_the_first_api_is_served_without_a_question(client: Client) -> None:
    assert (await InstalledApis(ApiViews(client, (VOLCANO,))).installed(asyncio.Event())).bindings == (VOLCANO,)
