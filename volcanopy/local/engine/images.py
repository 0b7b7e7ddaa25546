"""Images of containers: when they are pulled, with which credentials, and the Events and errors of a kubelet."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from volcanopy.kube.client.kinds import Json
from volcanopy.local.engine.api import EngineApi, EngineError
from volcanopy.local.process.container_spec import Sources
from volcanopy.local.process.pod_events import PodEvent
from volcanopy.local.process.runtime import ImageError

_DOCKER_HUB = "https://index.docker.io/v1/"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?P<tag>:[\w][\w.-]{{0,127}})?(?P<digest>@sha256:[0-9a-f]{{64}})?"
)
_NOT_FOUND = 404


def full_name(image: str) -> str:
    """The image with a tag or digest: `latest` without either. Raises ImageError for what is no reference."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        message = f"couldn't parse image name {json.dumps(image)}: invalid reference format"
        raise ImageError("InvalidImageName", f"Failed to apply default image tag {json.dumps(image)}: {message}")
    return image if match["tag"] or match["digest"] else f"{image}:latest"


def pull_policy(container: Json) -> str:
    """The pull policy of a container: by default `Always` for the tag `latest`, `IfNotPresent` for others."""
    default = "Always" if full_name(container["image"]).endswith(":latest") else "IfNotPresent"
    return str(container.get("imagePullPolicy") or default)


def registry_of(image: str) -> str:
    """The registry of an image, as files with credentials name it."""
    first, slash, _ = image.partition("/")
    return first if slash and ({".", ":"} & set(first) or first == "localhost") else _DOCKER_HUB


def credentials(image: str, pod: Json, sources: Sources, config: Path) -> dict[str, str]:
    """The header with the credentials for an image: of the pod's imagePullSecrets, else of Docker's `config.json`; or none."""
    registry = registry_of(image)
    for auths in _auths(pod, sources, config):
        for server, entry in auths.items():
            if _host(server) == _host(registry) and "auth" in entry:
                user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
                body = {"username": user, "password": password, "serveraddress": server}
                return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(body).encode()).decode()}
    return {}


def _auths(pod: Json, sources: Sources, config: Path) -> Iterator[Mapping[str, Json]]:
    for reference in pod["spec"].get("imagePullSecrets") or ():
        for data in sources.secret(reference.get("name", ""), optional=True).values():
            yield _auths_of(data)
    if config.is_file():
        yield _auths_of(config.read_bytes())


def _auths_of(data: bytes) -> Mapping[str, Json]:
    try:
        return dict(json.loads(data).get("auths") or {})
    except (ValueError, AttributeError):
        return {}


def _host(server: str) -> str:
    return server.removeprefix("https://").removeprefix("http://").split("/")[0]


class Images:
    """The images of an engine. They are pulled one after another, as a kubelet does."""

    def __init__(self, api: EngineApi, config: Path) -> None:
        self._api, self._config = api, config
        self._lock = asyncio.Lock()

    async def make_available(
        self, pod: Json, container: Json, sources: Sources, report: Callable[[PodEvent], None], place: str
    ) -> None:
        """Pull the image of a container if its policy requires that. Raises ImageError."""
        image, policy = container["image"], pull_policy(container)
        full = full_name(image)

        def event(kind: str, reason: str, message: str) -> None:
            report(PodEvent("Normal" if kind == "Normal" else "Warning", reason, message, place))

        if policy != "Always" and await self._size(full) is not None:
            event("Normal", "Pulled", f'Container image "{image}" already present on machine')
            return
        if policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            event("Warning", "ErrImageNeverPull", message)
            raise ImageError("ErrImageNeverPull", message)
        event("Normal", "Pulling", f'Pulling image "{image}"')
        start = time.monotonic()
        async with self._lock:
            began = time.monotonic()
            try:
                await self._pull(full, credentials(image, pod, sources, self._config))
            except EngineError as error:
                message = f'failed to pull and unpack image "{image}": {error}'
                event("Warning", "Failed", f'Failed to pull image "{image}": {message}')
                raise ImageError("ErrImagePull", message) from None
        now = time.monotonic()
        times = f"in {now - began:.3f}s ({now - start:.3f}s including waiting)"
        message = f'Successfully pulled image "{image}" {times}. Image size: {await self._size(full)} bytes.'
        event("Normal", "Pulled", message)

    async def _size(self, image: str) -> int | None:
        """The size of a present image in bytes; None for one that is not present. Raises ImageError."""
        try:
            return int((await self._api.call("GET", f"/images/{image}/json")).get("Size", 0))
        except EngineError as error:
            if error.status == _NOT_FOUND:
                return None
            raise ImageError("ImageInspectError", f'Failed to inspect image "{image}": {error}') from None

    async def _pull(self, image: str, headers: Mapping[str, str]) -> None:
        name, at, digest = image.partition("@")
        if not at:
            name, _, digest = image.rpartition(":")
        progress = await self._api.call("POST", "/images/create", headers=headers, fromImage=name, tag=digest)
        lines = [json.dumps(progress)] if isinstance(progress, dict) else str(progress).splitlines()
        for line in lines:
            if line.strip() and (error := json.loads(line).get("error")):
                raise EngineError(str(error))
