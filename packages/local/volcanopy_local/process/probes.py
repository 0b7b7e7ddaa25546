"""Startup, readiness and liveness probes: exec, httpGet, tcpSocket."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from volcanopy.kube.client.kinds import Json

Execute = Callable[[list[str], float], Awaitable[tuple[int, str]]]
"""Runs a command in the container within a time limit (seconds); its exit code and output. Raises TimeoutError, OSError."""


@dataclass(frozen=True)
class Reactions:
    """What follows the verdicts about one run of a container."""

    started: Callable[[], Awaitable[None]]
    """The startup probe has succeeded, or there is none."""
    ready: Callable[[bool], Awaitable[None]]
    """The verdict of the readiness probe has changed."""
    restart: Callable[[str], Awaitable[None]]
    """The `startup` or `liveness` probe has failed for good."""
    unhealthy: Callable[[str], None]
    """An attempt has failed, with the message of the kubelet's Event."""


async def watch_all(container: Json, address: str, execute: Execute, reactions: Reactions) -> None:
    """Watch the probes of a run until it is cancelled; without a readiness probe it is ready as soon as it has started."""

    async def watching(kind: str, report: Callable[[bool], Awaitable[None]], probe: Json) -> None:
        def failed(message: str) -> None:
            reactions.unhealthy(f"{kind.capitalize()} probe {message}")

        await watch(probe, container, address, execute, report, failed)

    async def alive(verdict: bool) -> None:
        if not verdict:
            await reactions.restart("liveness")

    if probe := container.get("startupProbe"):
        verdicts: asyncio.Queue[bool] = asyncio.Queue()
        startup = asyncio.create_task(watching("startup", verdicts.put, probe))
        try:
            if not await verdicts.get():
                await reactions.restart("startup")
                return
        finally:
            startup.cancel()
    await reactions.started()
    if not container.get("readinessProbe"):
        await reactions.ready(True)
    async with asyncio.TaskGroup() as tasks:
        for kind, report in (("readiness", reactions.ready), ("liveness", alive)):
            if probe := container.get(f"{kind}Probe"):
                tasks.create_task(watching(kind, report, probe))


async def watch(
    probe: Json,
    container: Json,
    address: str,
    execute: Execute,
    report: Callable[[bool], Awaitable[None]],
    failed: Callable[[str], None],
) -> None:
    """Ask the probe in its period for ever.

    `report` gets every change of its verdict by the thresholds, `failed` the message of every attempt that fails.
    """
    await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
    verdict: bool | None = None
    successes = failures = 0
    while True:
        if (message := await failure(probe, container, address, execute)) is None:
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
            failed(message)
        reached = None
        if successes >= int(probe.get("successThreshold") or 1):
            reached = True
        elif failures >= int(probe.get("failureThreshold") or 3):
            reached = False
        if reached is not None and reached != verdict:
            verdict = reached
            await report(verdict)
        await asyncio.sleep(float(probe.get("periodSeconds") or 10))


async def failure(probe: Json, container: Json, address: str, execute: Execute) -> str | None:
    """Why one attempt of the probe fails, as a kubelet's message: `failed: ...` or `errored: ...`; None if it succeeds."""
    timeout = float(probe.get("timeoutSeconds") or 1)
    if "exec" in probe:
        command = list(probe["exec"].get("command") or ())
        try:
            code, output = await execute(command, timeout)
        except TimeoutError:
            return f'failed: command timed out: "{" ".join(command)}" timed out after {timeout:g}s'
        except OSError as error:
            return f"errored: {error}"
        return None if code == 0 else f"failed: {output.rstrip()}"
    try:
        if "httpGet" in probe:
            return await _http(probe["httpGet"], container, address, timeout)
        if "tcpSocket" in probe:
            return await _tcp(probe["tcpSocket"], container, address, timeout)
    except _PortError as error:
        return f"errored: {error}"
    return "errored: missing probe handler: exec, httpGet and tcpSocket are supported"


class _PortError(Exception):
    """A named port that the container does not have."""


async def _tcp(target: Json, container: Json, address: str, timeout: float) -> str | None:
    host, port = target.get("host") or address, _port(target, container)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except (TimeoutError, OSError) as error:
        return f"failed: {_dial_error(host, port, error)}"
    return None


async def _http(target: Json, container: Json, address: str, timeout: float) -> str | None:
    host, port = target.get("host") or address, _port(target, container)
    url = f"{(target.get('scheme') or 'HTTP').lower()}://{host}:{port}{target.get('path') or '/'}"
    headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or ()}
    try:
        async with (
            asyncio.timeout(timeout),
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as response,
        ):
            status = response.status
    except TimeoutError:
        return f'failed: Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    except aiohttp.ClientConnectorError as error:
        return f'failed: Get "{url}": {_dial_error(host, port, error.os_error)}'
    except (OSError, aiohttp.ClientError) as error:
        return f'failed: Get "{url}": {error}'
    return None if 200 <= status < 400 else f"failed: HTTP probe failed with statuscode: {status}"


def _dial_error(host: str, port: int, error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"dial tcp {host}:{port}: i/o timeout"
    return f"dial tcp {host}:{port}: connect: {os.strerror(error.errno).lower() if error.errno else error}"


def _port(target: Json, container: Json) -> int:
    port: Any = target["port"]
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    ports = [item["containerPort"] for item in container.get("ports") or () if item.get("name") == port]
    if not ports:
        raise _PortError(f"couldn't find port {port} in container {container['name']}")
    return int(ports[0])
