"""A client that speaks plain HTTP to the running embedded API server."""

from collections.abc import AsyncIterator

import pytest

from embedded_apiserver.server import ApiServer
from tests.local.apiserver.talking import Client


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """A client of it."""
    talking = Client(server.url)
    yield talking
    await talking.close()
