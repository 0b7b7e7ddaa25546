"""A running embedded API server, and a client that speaks plain HTTP to it."""

from collections.abc import AsyncIterator

import pytest

from tests.local.apiserver.talking import Client
from volcanopy.local.apiserver.server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An empty cluster on a free port."""
    started = await ApiServer.start()
    yield started
    await started.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """A client of it."""
    talking = Client(server.url)
    yield talking
    await talking.close()
