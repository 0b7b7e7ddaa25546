"""An embedded API server with a simulated kubelet at work, whose stages are short."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from embedded_apiserver.server import ApiServer
from tests.local.rig import Rig, rig
from volcanopy_local.simulated.pod_stages import Stages

QUICK = Stages(start_delay=0.02, init_duration=0.02, durations=(0.1, 0.1), stop_delay=0.02, back_off=0.05)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An empty cluster on a free port."""
    started = await ApiServer.start()
    yield started
    await started.stop()


@pytest.fixture
async def kubelet(server: ApiServer) -> AsyncIterator[Rig]:
    """Two nodes, ``node-1`` and ``node-2``; every node of the cluster is served."""
    async with rig(server, QUICK, nodes=2) as made, asyncio.timeout(60):
        yield made
