"""A running embedded API server, and a client that speaks plain HTTP to it."""

import os
import time
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings

from embedded_apiserver.server import ApiServer
from http_client import Client

# Tables and logs have times.
os.environ["TZ"] = "UTC"
time.tzset()

# The examples are the same in every run, and half of the usual number; others are tried with --hypothesis-profile=explore.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.load_profile("repeatable")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An empty cluster on a free port."""
    started = await ApiServer.start()
    yield started
    await started.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """A client of it."""
    connected = Client(server.url)
    yield connected
    await connected.close()
