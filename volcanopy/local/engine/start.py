"""Finds a container engine on this machine, starts podman's API if it has to, and tries whether it runs containers."""

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from volcanopy.kube.client.kinds import Json
from volcanopy.local.engine.api import EngineApi, EngineError
from volcanopy.local.engine.container_body import CLUSTER_LABEL, Abilities
from volcanopy.local.engine.runtime import NO_PROGRAM, PODMAN, Engine
from volcanopy.local.process.guardian import Guardian

_ANSWER = 20.0
"""Seconds within which podman's API answers after its start."""
_DOCKER = Path("/var/run/docker.sock")


class NoEngineError(Exception):
    """There is no container engine that can be used; `is_installed` if there is one that cannot. The message is for the user."""

    def __init__(self, message: str, *, is_installed: bool = True) -> None:
        super().__init__(message)
        self.is_installed = is_installed


def socket_of(environment: Mapping[str, str]) -> Path | None:
    """The socket that `DOCKER_HOST` names. Raises NoEngineError if it names another kind of address."""
    address = environment.get("DOCKER_HOST", "")
    if not address:
        return None
    if not address.startswith("unix://"):
        raise NoEngineError(f"DOCKER_HOST {address!r} is no Unix socket: containers must run on this machine")
    return Path(address.removeprefix("unix://"))


@asynccontextmanager
async def engine(guardian: Guardian, environment: Mapping[str, str] = os.environ) -> AsyncIterator[Engine]:
    """The engine at `DOCKER_HOST`, else podman, else Docker's socket; the guardian deletes its containers in the end.

    Raises NoEngineError if there is none, or it cannot run a container.
    """
    socket = socket_of(environment)
    if socket is None and (podman := shutil.which("podman")) is not None:
        socket = await _podman(podman, guardian)
    elif socket is None and os.access(_DOCKER, os.W_OK):
        socket = _DOCKER
    if socket is None:
        message = "there is no container engine: install podman, or Docker for this user"
        raise NoEngineError(message, is_installed=False)
    async with EngineApi(socket) as api:
        try:
            tried = await _tried(api, guardian)
        except EngineError as error:
            raise NoEngineError(f"the container engine cannot run containers: {error}") from None
        yield tried


async def _podman(program: str, guardian: Guardian) -> Path:
    """The socket of a new podman service. Raises NoEngineError."""
    folder = Path(tempfile.mkdtemp(prefix="volcanopy-engine-"))
    guardian.remove(folder)
    socket, errors = folder / "podman.sock", folder / "errors"
    with errors.open("wb") as output:
        service = subprocess.Popen(  # noqa: ASYNC220  it returns as soon as the program is executed
            [program, "system", "service", "--time", "0", f"unix://{socket}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            cwd=folder,  # where podman's monitor of a container writes a file when memory is exceeded
            start_new_session=True,
        )
    guardian.started(service.pid)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ANSWER):
            while service.poll() is None:
                if socket.exists():
                    return socket
                await asyncio.sleep(0.02)
    reason = errors.read_text(errors="replace").strip().splitlines()
    raise NoEngineError(f"podman does not start: {reason[-1] if reason else 'it does not answer'}")


async def _tried(api: EngineApi, guardian: Guardian) -> Engine:
    """The engine behind an API, which has tried to run a container. Raises EngineError, NoEngineError."""
    version, facts = await api.call("GET", "/version"), await api.call("GET", "/info")
    cluster = f"{os.getpid()}-{os.urandom(4).hex()}"
    guardian.started_engine(api.socket, f"{CLUSTER_LABEL}={cluster}")
    await _check(api, cluster)
    return Engine(_name(version), api, cluster, abilities_of(facts, os.geteuid(), os.getegid()))


def _name(version: Json) -> str:
    names = [str(component.get("Name", "")) for component in version.get("Components") or ()]
    return PODMAN if any(PODMAN in name.lower() for name in names) else "docker"


def abilities_of(facts: Json, user: int, group: int) -> Abilities:
    """What the engine can do; where it runs as root and this user does not, containers run as this user.

    An engine without root ignores limits where control groups have version 1, whatever its facts claim.
    """
    rootless = bool(facts.get("Rootless")) or any("rootless" in option for option in facts.get("SecurityOptions") or ())
    user_option = "" if rootless or user == 0 else f"{user}:{group}"
    limits = not (rootless and str(facts.get("CgroupVersion")) == "1")
    return Abilities(limits and bool(facts.get("MemoryLimit")), limits and bool(facts.get("CpuCfsQuota")), user_option)


async def _check(api: EngineApi, cluster: str) -> None:
    """Start a container whose program does not exist: an engine that works has that error. Raises EngineError."""
    created = await api.call("POST", "/images/create", _empty_archive(), fromSrc="-")
    image: str = created["status"]
    try:
        body: dict[str, Any] = {
            "Image": image,
            "Entrypoint": ["/none"],
            "Labels": {CLUSTER_LABEL: cluster},
            "HostConfig": {"NetworkMode": "host", "LogConfig": {"Type": "none"}},
        }
        created = await api.call("POST", "/containers/create", body)
        try:
            await api.call("POST", f"/containers/{created['Id']}/start")
        except EngineError as error:
            if not NO_PROGRAM.search(str(error)):
                raise
        finally:
            await api.call("DELETE", f"/containers/{created['Id']}", force="true", v="true")
    finally:
        await api.call("DELETE", f"/images/{image}", force="true")


def _empty_archive() -> bytes:
    with io.BytesIO() as content:
        tarfile.open(fileobj=content, mode="w").close()
        return content.getvalue()
