"""Writes that keep the root and default queue the same in every served API."""

import asyncio

import structlog

from volcanopy.api import names
from volcanopy.api.model import Json
from volcanopy.api.shared_queues import copy_in, recorded, synchronized
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.kube.client.raw_kinds import QUEUES

log = structlog.get_logger(__name__)

PACE = 1.0
"""Least seconds between two writes of the status of a copy."""


class SharedQueues:
    """Creates the objects of shared queues that an API lacks, and writes the changes of one into the other.

    A queue is the object that counts, its copy that of the other API.
    """

    def __init__(self, apis: ApiViews) -> None:
        self._apis = apis
        self._status: dict[str, tuple[Json, float]] = {}
        """By name: the last status that was written into a copy, and when. Definitions of Volcano may lack fields of it."""

    def __contains__(self, name: str) -> bool:
        """Whether several APIs have the queue."""
        return len(self._apis) > 1 and name in names.SHARED_QUEUES

    async def synchronize(self, queue: Json, copy: Json | None) -> tuple[list[Json], float]:
        """Return the current objects, and the seconds until the next write of the status, 0 without one.

        Raises Conflict, NotFound.
        """
        if copy is None:
            return await self._create(queue), 0.0
        if any("deletionTimestamp" in item["metadata"] for item in (queue, copy)):
            return [], 0.0
        if not _is_synchronized(queue, copy):
            return await self._write_content(queue, copy), 0.0
        return await self._write_status(queue, copy)

    async def _create(self, queue: Json) -> list[Json]:
        [client] = [view for view in self._apis if view is not self._apis.of(queue)]
        kind, name, status = client.of_api(QUEUES), queue["metadata"]["name"], queue.get("status")
        try:
            created = await client.create(kind, None, copy_in(queue, kind.api_version))
        except AlreadyExists:
            return []  # the watch shows it
        log.info("queue created", queue=name, group=kind.group)
        return [await client.patch_status(kind, None, name, {"status": status}) if status else created]

    async def _write_content(self, queue: Json, copy: Json) -> list[Json]:
        """Write the changes of both.

        Both are read again: what differs from the record may be an older version of an object, and no change.
        """
        queue, copy = [await self._read(item) for item in (queue, copy)]
        after, copy_after = synchronized(queue, copy)
        copy = await self._patch(copy, copy_after)
        return [await self._patch(queue, recorded(after, copy)), copy]

    async def _read(self, queue: Json) -> Json:
        return await self._apis.of(queue).get(QUEUES, None, queue["metadata"]["name"])

    async def _patch(self, queue: Json, after: Json) -> Json:
        patch = merge_patch(queue, after)
        if not patch:
            return queue
        client, metadata = self._apis.of(queue), queue["metadata"]
        precondition = {key: metadata[key] for key in ("uid", "resourceVersion")}
        patch["metadata"] = {**patch.get("metadata", {}), **precondition}
        api, fields = queue["apiVersion"], sorted(patch.get("spec", {}))
        log.info("queue synchronized", queue=metadata["name"], group=api.partition("/")[0], fields=fields)
        return await client.patch(QUEUES, None, metadata["name"], patch)

    async def _write_status(self, queue: Json, copy: Json) -> tuple[list[Json], float]:
        name, now = queue["metadata"]["name"], asyncio.get_running_loop().time()
        status = queue.get("status") or {}
        patch = merge_patch(copy.get("status") or {}, status)
        written, at = self._status.get(name, (None, -PACE))
        if not patch or status == written:
            return [], 0.0
        if now < at + PACE:
            return [], at + PACE - now
        body = {"metadata": {"uid": copy["metadata"]["uid"]}, "status": patch}
        copy = await self._apis.of(copy).patch_status(QUEUES, None, name, body)
        self._status[name] = status, now
        return [copy], 0.0


def _is_synchronized(queue: Json, copy: Json) -> bool:
    """Whether both objects have the recorded content."""
    after, copy_after = synchronized(queue, copy)
    return copy_after == copy and recorded(after, copy) == queue
