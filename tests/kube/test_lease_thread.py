"""The Lease is renewed on its own thread, whatever the main event loop does."""

import asyncio
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedded_apiserver.server import ApiServer
from tests.kube.cluster import running_cluster
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.http_channel import probed_socket
from volcanopy.kube.leader.elector import Elector, LeaseDurations, LostLeadership
from volcanopy.kube.leader.lease import LeaseLock
from volcanopy.kube.leader.lease_thread import LeaseThread

TERMS = LeaseDurations(duration=3, renew=1.0, retry=0.2)


def candidate(client: Client, identity: str = "me") -> Elector:
    return Elector(LeaseLock(client, "default", "lease"), identity, TERMS)


@contextmanager
def server_on_a_thread() -> Iterator[Connection]:
    """An API server with an event loop of its own."""
    urls: queue.Queue[str] = queue.Queue()
    stop = threading.Event()

    async def serve() -> None:
        server = await ApiServer.start()
        urls.put(server.url)
        await asyncio.to_thread(stop.wait)
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield Connection(urls.get(timeout=120))
    finally:
        stop.set()
        thread.join()


async def test_a_main_loop_that_stands_still_does_not_lose_the_lease() -> None:
    with server_on_a_thread() as connection:
        await _stand_still_as_the_leader(connection)


async def _stand_still_as_the_leader(connection: Connection) -> None:
    async with LeaseThread(connection, "me", candidate) as lease:
        await lease.acquire()
        holding = asyncio.create_task(lease.hold())
        await asyncio.sleep(0)
        time.sleep(2.5)  # noqa: ASYNC251 - longer than the renew deadline
        assert lease.may_act()
        assert lease.leader == "me"
        holding.cancel()
        await lease.release()
        assert not lease.may_act()


async def test_the_loss_of_the_lease_is_raised_on_the_main_loop() -> None:
    async with running_cluster() as cluster, LeaseThread(cluster.connection, "me", candidate) as lease:
        await lease.acquire()
        other = candidate(cluster.client, "other")
        lock = LeaseLock(cluster.client, "default", "lease")
        held = await lock.read(5.0)
        assert held is not None
        other._see(held)
        await lock.write(other._taken(), held, 5.0)
        with pytest.raises(LostLeadership, match="held by other"):
            await lease.hold()
        assert not lease.may_act()


async def test_the_lease_is_given_back_from_another_thread() -> None:
    async with running_cluster() as cluster, LeaseThread(cluster.connection, "me", candidate) as lease:
        await lease.acquire()
        await asyncio.to_thread(lease.release_now, 5.0)
        held = await LeaseLock(cluster.client, "default", "lease").read(5.0)
        assert held is not None
        assert held.record.holder == ""


def test_connections_notice_a_vanished_peer() -> None:
    with probed_socket((socket.AF_INET, socket.SOCK_STREAM, 0)) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
