"""Worlds of the page on why jobs wait, on an API server: with a BatchJob behind each pod group, and the scheduler at work."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from embedded_apiserver.server import ApiServer
from volcanopy.api import core, names
from volcanopy.api.crd import crds
from volcanopy.kube.cache.followed_kinds import OPTIONAL, REQUIRED
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service
from volcanopy.services.scheduler.writers.status_writer import Timing
from volcanopy_testing.notation import world

JOBS: Kind[Json] = Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict)
CRDS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
_KINDS = {kind.type: kind for kind in (*REQUIRED, *OPTIONAL)}
_AT_ONCE = Timing(settle=0.02, message_delay=0.05, repeat_delay=0.1)


@dataclass
class Place:
    """A cluster with a world in it; ``groups`` are the names of the pod groups by the job that they were made for."""

    client: Client
    groups: dict[str, str]

    async def explained(self, jobs: Sequence[str], seconds: float = 120.0) -> dict[str, Json]:
        """Wait until the groups of these jobs explain themselves; gives the explanations."""
        groups: Kind[Json] = Kind(names.SCHEDULING, "v1beta1", "PodGroup", "podgroups", True, dict)
        changed = asyncio.Event()
        reflector = Reflector(self.client, groups)
        following = asyncio.create_task(reflector.run(lambda _: changed.set()))
        try:
            async with asyncio.timeout(seconds):
                while True:
                    by_name = {obj["metadata"]["name"]: obj for obj in reflector.objects.values()}
                    result = {
                        job: by_name.get(self.groups[job], {}).get("status", {}).get("explanation") for job in jobs
                    }
                    if all(result.values()):
                        return {job: said for job, said in result.items() if said}
                    changed.clear()
                    await changed.wait()
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


@asynccontextmanager
async def scheduled_world(text: str, configuration: str, folder: Path) -> AsyncIterator[Place]:
    """The world on an embedded server, with a scheduler of this configuration at work on it."""
    path = folder / "scheduler.yaml"
    path.write_text(configuration)
    server = await ApiServer.start()
    try:
        async with Client(Connection(server.url)) as client:
            for definition in crds():
                await client.create(CRDS, None, definition)
            groups = await _create_objects(client, text)
            stop, ready = asyncio.Event(), asyncio.Event()
            running = asyncio.create_task(
                scheduler_service.run(
                    Connection(server.url), SchedulerSettings(config=path), stop, ready, timing=_AT_ONCE
                )
            )
            try:
                yield Place(client, groups)
            finally:
                stop.set()
                await running
    finally:
        await server.stop()


async def _create_objects(client: Client, text: str) -> dict[str, str]:
    things = world(text)
    groups = {item.metadata.name: await _job(client, item) for item in things if isinstance(item, core.PodGroup)}
    for obj in things:
        kind = _KINDS[type(obj)]
        body: Json = {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(obj)}
        metadata = {key: value for key, value in body["metadata"].items() if key not in {"uid", "resourceVersion"}}
        body["metadata"] = metadata
        for key in ("annotations", "labels"):
            if names.GROUP_NAME in metadata.get(key, {}):
                metadata[key] = metadata[key] | {names.GROUP_NAME: groups[metadata[key][names.GROUP_NAME]]}
        if isinstance(obj, core.PodGroup):
            metadata["name"] = groups[obj.metadata.name]
        _fill(body)
        status = body.pop("status", None) if kind.kind != "Node" else None
        try:
            await client.create(kind, metadata.get("namespace"), body)
        except AlreadyExists:
            continue
        if status:
            await client.patch_status(kind, metadata.get("namespace"), metadata["name"], {"status": status})
    return groups


async def _job(client: Client, group: core.PodGroup) -> str:
    """Make the BatchJob that the group might have been made for; gives the group's name."""
    container = {"name": "main", "image": "busybox"}
    task = {
        "name": "main",
        "replicas": max(group.spec.min_member, 1),
        "template": {"spec": {"containers": [container]}},
    }
    body: dict[str, Any] = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": group.metadata.name, "namespace": group.metadata.namespace},
        "spec": {"queue": group.spec.queue or "default", "tasks": [task]},
    }
    made = await client.create(JOBS, group.metadata.namespace, body)
    state = {"status": {"state": {"phase": "Pending", "reason": "NotAdmitted", "message": "waits"}}}
    await client.patch_status(JOBS, group.metadata.namespace, group.metadata.name, state)
    return f"{group.metadata.name}-{made['metadata']['uid']}"


def _fill(body: Json) -> None:
    """What a server demands that scheduling does not look at, or takes for granted."""
    for container in body["spec"]["containers"] if body["kind"] == "Pod" else ():
        container.setdefault("image", "busybox")
        container.setdefault("name", "main")
    for member in body["spec"]["members"] if body["kind"] == "HyperNode" else ():
        member.setdefault("type", "Node")
