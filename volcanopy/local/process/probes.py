"""Startup, readiness and liveness probes: exec, httpGet, tcpSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from volcanopy.kube.client.kinds import Json

Execute = Callable[[list[str], float], Awaitable[int]]
"""Runs a command in the container within a time limit (seconds); returns its exit code."""


async def succeeds(probe: Json, container: Json, address: str, execute: Execute) -> bool:
    """Whether one attempt of the probe succeeds within its timeout."""
    timeout = float(probe.get("timeoutSeconds") or 1)
    with contextlib.suppress(TimeoutError, OSError, aiohttp.ClientError):
        if "exec" in probe:
            return await execute(list(probe["exec"].get("command") or ()), timeout) == 0
        async with asyncio.timeout(timeout):
            if "httpGet" in probe:
                return await _http(probe["httpGet"], container, address)
            if "tcpSocket" in probe:
                target = probe["tcpSocket"]
                _, writer = await asyncio.open_connection(target.get("host") or address, _port(target, container))
                writer.close()
                return True
    return False


async def _http(target: Json, container: Json, address: str) -> bool:
    scheme = (target.get("scheme") or "HTTP").lower()
    url = f"{scheme}://{target.get('host') or address}:{_port(target, container)}{target.get('path') or '/'}"
    headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or ()}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False, allow_redirects=False) as response,
    ):
        return 200 <= response.status < 400


def _port(target: Json, container: Json) -> int:
    port: Any = target["port"]
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    named = [each["containerPort"] for each in container.get("ports") or () if each.get("name") == port]
    if not named:
        raise OSError(f"container {container['name']} has no port named {port}")
    return int(named[0])


async def watch(
    probe: Json, container: Json, address: str, execute: Execute, report: Callable[[bool], Awaitable[None]]
) -> None:
    """Ask the probe in its period for ever; `report` gets every change of its verdict by the thresholds."""
    await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
    verdict: bool | None = None
    successes = failures = 0
    while True:
        if await succeeds(probe, container, address, execute):
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        reached = None
        if successes >= int(probe.get("successThreshold") or 1):
            reached = True
        elif failures >= int(probe.get("failureThreshold") or 3):
            reached = False
        if reached is not None and reached != verdict:
            verdict = reached
            await report(verdict)
        await asyncio.sleep(float(probe.get("periodSeconds") or 10))
