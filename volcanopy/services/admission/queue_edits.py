"""Changes of the tree of queues, one after another, however many servers judge them.

A webhook judges before the change is stored. Two changes that are judged at the same moment could each be right and
break a sum together. So whoever lets one through writes it down first, in one ConfigMap and on condition that nobody wrote
meanwhile; whoever judges the next reads that page *before* reading the queues. A change that was let through is then
either in the queues or on the page. It stays there until it is seen in the queues, or so long that the API server has given
the request up.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from volcanopy.admission.context import Context, Edit
from volcanopy.admission.queues import changes_tree, known_queue, same_claims
from volcanopy.admission.request import Request
from volcanopy.api import names
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroupPhase
from volcanopy.api.scheduling_read import Queue
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.services.admission.cluster_cache import QUEUES

log = logging.getLogger(__name__)

CONFIG_MAPS: Kind[Json] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
PAGE = "volcanopy-queue-edits"
KEPT = timedelta(seconds=90)
"""Longer than an API server works on one request (60 s unless it is told otherwise), and than clocks differ."""
MOST_EDITS = 256
DEADLINE = 8.0
"""Seconds, less than the API server waits for us."""
_TRIES = 12

Judge = Callable[[Json, Context], Json]


class QueueEdits:
    """Judges changes of queues with those in mind that are on their way, and writes down what it lets through."""

    def __init__(self, client: Client, namespace: str, now: Callable[[], datetime]) -> None:
        self._client, self._namespace, self._now = client, namespace, now

    def concerns(self, body: Json) -> Request | None:
        """The request, if it is about the tree of queues and must be judged here."""
        request = Request.of(body)
        if request is None or request.group != names.SCHEDULING or request.kind != "Queue" or not request.name:
            return None
        return request if changes_tree(request) else None

    async def judge(self, body: Json, request: Request, context: Context, judge: Judge) -> Json:
        """The answer, and the change written down if it is let through. Raises KubeError if the page cannot be used."""
        for _ in range(_TRIES):
            page = await self._page(make=not request.dry_run)
            listed = await self._client.list(QUEUES, page=0, deadline=DEADLINE)
            queues = {one.metadata.name: one for one in listed.items}
            rows = [row for row in _rows(page) if self._is_open(row, queues)]
            edits = tuple(map(_edit, rows))
            context = replace(context, queues=queues, edits=edits)
            if request.operation == "DELETE":
                context = replace(context, unfinished=await self._unfinished())
            answer = judge(body, context)
            if not answer["response"]["allowed"] or request.dry_run:
                return answer
            if len(rows) >= MOST_EDITS:
                raise KubeError(f"{MOST_EDITS} changes of queues are on their way: try again in a minute")
            rows.append(_row(request, self._now()))
            page["data"] = {"edits": json.dumps(rows)}
            try:
                await self._client.update(CONFIG_MAPS, self._namespace, PAGE, page, deadline=DEADLINE)
            except (Conflict, NotFound):
                continue
            return answer
        raise KubeError("queues are being changed by many at this moment: try again")

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

    async def _unfinished(self) -> Counter[str]:
        """What is in the queues now, not what was heard of a moment ago."""
        groups = await self._client.list(POD_GROUPS, deadline=DEADLINE)
        living = (one for one in groups.items if one.status.phase != PodGroupPhase.COMPLETED)
        return Counter(one.spec.queue or names.DEFAULT_QUEUE for one in living)

    def _is_open(self, row: Json, queues: dict[str, Queue]) -> bool:
        """Whether a change may still come: it is not seen yet, and not so old that it failed elsewhere."""
        edit = _edit(row)
        found = queues.get(edit.name)
        gone = edit.after is None and found is None
        seen = gone or (edit.after is not None and found is not None and same_claims(found, edit.after))
        return not seen and self._now() - datetime.fromisoformat(row["at"]) < KEPT


def _rows(page: Json) -> list[Json]:
    try:
        found = json.loads((page.get("data") or {}).get("edits") or "[]")
        if isinstance(found, list) and all(_readable(row) for row in found):
            return found
    except ValueError:
        pass
    log.warning("ConfigMap %s does not hold what was written there: it is begun anew", PAGE)
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
