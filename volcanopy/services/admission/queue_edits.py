"""Serialised validation of changes of the queue tree, over all admission servers.

A webhook validates a change before it is stored, so two concurrent changes could each be valid and violate a sum together.
Therefore an allowed change is first recorded in one ConfigMap, with optimistic concurrency, and the next validation reads that
ConfigMap *before* the queues. An allowed change is then either in the queues or in the ConfigMap. It stays there until it is
seen in the queues, or until the API server must have abandoned the request.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
import structlog

from volcanopy.admission.context import Context, Edit
from volcanopy.admission.queues import changes_tree, known_queue, same_claims
from volcanopy.admission.request import Request
from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroupPhase
from volcanopy.api.translation import read_with_own_names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.client.api_client import PAGE as PAGE_SIZE
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS
from volcanopy.services.admission.cluster_cache import QUEUES

log = structlog.get_logger(__name__)

PAGE = "volcanopy-queue-edits"
KEPT = timedelta(seconds=90)
"""Longer than the API server's request timeout (60 s by default) plus the difference of clocks."""
MOST_EDITS = 256
DEADLINE = 8.0
"""Seconds, less than the webhook timeout."""
_TRIES = 12
_OVER = frozenset({"Succeeded", "Failed"})
"""Phases of pods."""

T = TypeVar("T")
Judge = Callable[[Json, Context], Json]


class QueueEdits:
    """Validates changes of queues together with those in progress, and records allowed ones."""

    def __init__(self, apis: ApiViews, namespace: str, now: Callable[[], datetime]) -> None:
        """``apis``: those whose queues form one tree."""
        self._apis, self._client, self._namespace, self._now = apis, next(iter(apis)), namespace, now

    def concerns(self, body: Json) -> Request | None:
        """Return the request if it changes the queue tree."""
        request = Request.of(body)
        if request is None or request.group != names.SCHEDULING or request.kind != "Queue" or not request.name:
            return None
        return request if changes_tree(request) else None

    async def judge(self, body: Json, request: Request, context: Context, judge: Judge) -> Json:
        """Return the response and record the change if it is allowed. Raises KubeError if the ConfigMap is not usable."""
        for _ in range(_TRIES):
            page = await self._page(make=not request.dry_run)
            listed = await self._listed(QUEUES, page=0)
            queues = {queue.metadata.name: queue for queue in reversed(listed)}  # the first API counts
            rows = [row for row in _rows(page) if self._is_open(row, queues)]
            edits = tuple(map(_edit, rows))
            context = replace(context, queues=queues, edits=edits)
            if request.operation == "DELETE":
                context = replace(context, unfinished=await self._users(request.name))
            answer = judge(body, context)
            if not answer["response"]["allowed"] or request.dry_run:
                return answer
            if len(rows) >= MOST_EDITS:
                raise KubeError(f"{MOST_EDITS} changes of queues are in progress: try again in a minute")
            rows.append(_row(request, self._now()))
            page["data"] = {"edits": json.dumps(rows)}
            try:
                await self._client.update(CONFIG_MAPS, self._namespace, PAGE, page, deadline=DEADLINE)
            except (Conflict, NotFound):
                continue
            return answer
        raise KubeError("too many concurrent changes of queues: try again")

    async def _page(self, *, make: bool) -> Json:
        while True:
            try:
                return await self._client.get(CONFIG_MAPS, self._namespace, PAGE, deadline=DEADLINE)
            except NotFound:
                metadata = {"name": PAGE, "namespace": self._namespace}
                fresh = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"edits": "[]"}}
                if not make:
                    return fresh
                try:
                    await self._client.create(CONFIG_MAPS, self._namespace, fresh, deadline=DEADLINE)
                except AlreadyExists:
                    continue

    async def _users(self, queue: str) -> Counter[str]:
        """Return the number of PodGroups that keep a queue from being deleted, read from the API server.

        They are not completed, and have an owner or a pod. One that a client made, and whose pods are all over or being
        deleted, does not count: nothing that runs or waits needs the queue, and no controller would complete it.
        """
        listed = await self._listed(POD_GROUPS)
        groups = [group for group in listed if (group.spec.queue or names.DEFAULT_QUEUE) == queue]
        groups = [group for group in groups if group.status.phase != PodGroupPhase.COMPLETED]
        left = {group.metadata.key for group in groups if not group.metadata.owner_references}
        for namespace in sorted({key.partition("/")[0] for key in left}):
            left -= await self._with_pods(namespace)
        return Counter({queue: sum(group.metadata.key not in left for group in groups)})

    async def _with_pods(self, namespace: str) -> set[str]:
        """Return the keys of the PodGroups of a namespace that have pods which are neither over nor being deleted."""
        listed = await self._client.list(PODS, namespace, deadline=DEADLINE)
        pods = [read_with_own_names(pod, self._apis.bindings) for pod in listed.items]
        alive = [pod for pod in pods if not pod.metadata.deletion_timestamp and pod.status.phase not in _OVER]
        notes = [pod.metadata.annotations for pod in alive]
        return {f"{namespace}/{note.get(names.GROUP_NAME) or note.get(names.POD_GROUP_NAME)}" for note in notes}

    async def _listed(self, kind: Kind[T], page: int = PAGE_SIZE) -> list[T]:
        """Return the objects of a kind of all served APIs, with volcanopy's names of labels and annotations."""
        items: list[T] = []
        for number, view in enumerate(self._apis):
            try:
                items += (await view.list(kind, deadline=DEADLINE, page=page)).items
            except NotFound:
                if not number:
                    raise
                continue  # its definitions are not installed
        return items

    def _is_open(self, row: Json, queues: dict[str, Queue]) -> bool:
        """Whether a change may still be stored: neither visible nor too old."""
        edit = _edit(row)
        queue = queues.get(edit.name)
        gone = edit.after is None and queue is None
        seen = gone or (edit.after is not None and queue is not None and same_claims(queue, edit.after))
        return not seen and self._now() - datetime.fromisoformat(row["at"]) < KEPT


def _rows(page: Json) -> list[Json]:
    try:
        rows = json.loads((page.get("data") or {}).get("edits") or "[]")
        if isinstance(rows, list) and all(_readable(row) for row in rows):
            return rows
    except ValueError:
        pass
    log.warning("invalid content of ConfigMap replaced", configmap=PAGE)
    return []


def _readable(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get("at"), str)


def _row(request: Request, now: datetime) -> Json:
    row: Json = {"name": request.name, "at": now.isoformat()}
    after = known_queue(request.object) if request.operation != "DELETE" else None
    if after is not None:
        spec = after.spec
        row["spec"] = {
            "parent": spec.parent,
            "capability": spec.capability,
            "deserved": spec.deserved,
            "guarantee": {"resource": spec.guarantee.resource},
        }
    return row


def _edit(row: Json) -> Edit:
    name = row["name"]
    if "spec" not in row:
        return Edit(name, None)
    return Edit(name, msgspec.convert({"metadata": {"name": name}, "spec": row["spec"]}, Queue))
