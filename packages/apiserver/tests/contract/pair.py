"""Both servers, with the same kinds and one node."""

from collections.abc import AsyncIterator

import pytest

from contract.objects import DEFINITIONS, WIDGET_DEFINITION
from contract.servers import Server, Step
from embedded_apiserver.server import ApiServer
from server_certificate import self_signed
from tests.controlplane.plane import ControlPlane


@pytest.fixture
async def pair(real_control_plane: ControlPlane) -> AsyncIterator[tuple[Server, Server]]:
    """The real server first, then the embedded one."""
    embedded = await ApiServer.start(tls=self_signed())
    plane = real_control_plane
    servers = (
        Server("real", plane.url, plane.token, plane.ca.decode()),
        Server("embedded", embedded.url, embedded.token, embedded.ca_pem),
    )
    for server in servers:
        await server.ask(Step("POST", DEFINITIONS, WIDGET_DEFINITION), "")
        await server.settled(Step("GET", "/apis/contract.example.io/v1/widgets", code=200), "")
        await server.ask(Step("POST", "/api/v1/nodes", {"metadata": {"name": "contract-n1"}}), "")
    yield servers
    for server in servers:
        await server.close()
    await embedded.stop()
