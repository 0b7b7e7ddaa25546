"""Faults of pressure: a busy machine, an overloaded API server, and an etcd that is full or has forgotten its history."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping

import aiohttp

from chaos.fault import ETCD, OWN_SERVICES, Fault
from chaos.site import Site, surely
from volcanopy.kube.client.errors import NoAnswer
from volcanopy.kube.client.kinds import Json

PROGRAMS = 35
"""Programs that compute beside the services on a busy machine."""
_COMPUTE = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
_ANSWER_SECONDS = 5.0
"""How long an overloaded API server takes to answer."""
_DELAYS = 3
"""How often a proxy delays a request and its answer."""
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class BusyMachine(Fault):
    """Programs that only compute, many more than there are cpus, run beside the services for up to 30 s."""

    name = "busy machine"

    def missing(self, site: Site) -> str:
        return "" if site.services else OWN_SERVICES

    async def inject(self, site: Site) -> bool:
        with site.alone("machine") as alone:
            if not alone:
                return False
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(PROGRAMS):
                    program = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", _COMPUTE)
                    stack.push_async_callback(program.wait)
                    stack.callback(program.kill)
                await site.pause(10, 30)
        return True


class Overload(Fault):
    """The API server takes 5 s for each answer, and rejects half of the requests with 429, for up to two minutes."""

    name = "overloaded API server"

    def missing(self, site: Site) -> str:
        return "" if site.proxies else OWN_SERVICES

    async def inject(self, site: Site) -> bool:
        with contextlib.ExitStack() as stack:
            if not (alone := stack.enter_context(site.alone("network"))):
                return False
            for proxy in site.proxies:
                stack.enter_context(proxy.delayed(_ANSWER_SECONDS / _DELAYS))
                stack.enter_context(proxy.storm(429, 0.5))
            await site.pause(20, 120)
        return alone


class _EtcdFault(Fault):
    def missing(self, site: Site) -> str:
        return "" if site.etcd else ETCD


class EtcdFull(_EtcdFault):
    """etcd raises its alarm NOSPACE for up to 20 s: it rejects every write, as when its database exceeds the quota."""

    name = "full etcd"

    async def inject(self, site: Site) -> bool:
        with site.alone("server") as alone:
            if alone:
                try:
                    await _call(site, "maintenance/alarm", {"action": "ACTIVATE", "alarm": "NOSPACE"})
                    await site.pause(2, 20)
                finally:
                    end = {"action": "DEACTIVATE", "alarm": "NOSPACE"}
                    await surely(lambda: _call(site, "maintenance/alarm", end))
        return alone


class EtcdCompacted(_EtcdFault):
    """etcd forgets every version but the newest: a watch that continues at an older one gets 410 from etcd."""

    name = "compacted etcd"

    async def inject(self, site: Site) -> bool:
        newest = await _call(site, "kv/range", {"key": "AA==", "limit": 1})
        await _call(site, "kv/compaction", {"revision": newest["header"]["revision"], "physical": True})
        return True


async def _call(site: Site, path: str, body: Mapping[str, object]) -> Json:
    """Call etcd's API in JSON. Raises NoAnswer."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(f"{site.etcd}/v3/{path}", json=body, raise_for_status=True) as answer,
        ):
            document: Json = await answer.json()
            return document
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NoAnswer(site.etcd, str(error), maybe_applied=True) from None
