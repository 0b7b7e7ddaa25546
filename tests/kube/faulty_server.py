"""A small API server on loopback that keeps objects and history, and fails as scripted."""

import asyncio
import copy
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from volcanopy.kube.client.connection import Connection, Credentials

Json = dict[str, Any]


def status(code: int, reason: str, message: str = "", **details: Any) -> Json:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return {**body, "message": message or reason, "details": details}


@dataclass
class Fault:
    """What happens to the next request that ``matches``: an answer of ours, or a cut before or after it is carried out."""

    method: str
    part: str = ""
    code: int = 0
    reason: str = ""
    details: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut: str = ""
    """``before`` or ``after`` the request is carried out."""
    body: bytes | None = None

    def matches(self, request: web.Request) -> bool:
        return request.method == self.method and self.part in request.path_qs


@dataclass
class WatchPlan:
    """How one watch goes wrong. The default: not at all."""

    code: int = 0
    """An HTTP error instead of a stream."""
    replay: int = 0
    """Send so many events from before the asked version first."""
    events: int | None = None
    """End after so many events ..."""
    ending: str = "close"
    """... like this: close, cut, mid-line, gone (ERROR 410), error (ERROR 500), garbage, silence."""
    bookmarks: bool = True
    """A bookmark whenever there is nothing else to send."""
    repeat: bool = False
    """Every event is sent twice."""
    spaced: bool = False
    """Other spacing and key order than Go's encoder would use."""


class FaultyServer:
    """The state, the history, and the scripted faults."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.history: list[tuple[int, str, tuple[str, str, str], Json]] = []
        self.revision = 100
        self.oldest = 0
        self.faults: deque[Fault] = deque()
        self.watches: deque[WatchPlan] = deque()
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        self.tokens: set[str] | None = None
        self.on_request: Callable[[web.Request], Awaitable[None]] | None = None
        self.url = ""
        self.closed = asyncio.Event()
        """Set at the end: whoever hangs, hangs until then."""
        self._news = asyncio.Event()
        self._uids = 0
        self._snapshots: dict[str, list[Json]] = {}

    # -- what tests do to the state

    def put(self, plural: str, namespace: str, name: str, **fields: Any) -> Json:
        """Create or change an object behind everybody's back."""
        key = (plural, namespace, name)
        old = self.objects.get(key)
        item = {**copy.deepcopy(old or {}), **fields}
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.get("metadata", {})}
        item["metadata"] = {**(old or {}).get("metadata", {}), **meta}
        if old is None:
            self._uids += 1
            item["metadata"]["uid"] = f"u{self._uids}"
        return self._record("MODIFIED" if old else "ADDED", key, item)

    def remove(self, plural: str, namespace: str, name: str) -> Json:
        key = (plural, namespace, name)
        return self._record("DELETED", key, copy.deepcopy(self.objects[key]))

    def compact(self) -> None:
        """Drop all history: a request for an earlier version gets 410."""
        self.oldest = self.revision

    def _record(self, what: str, key: tuple[str, str, str], item: Json) -> Json:
        self.revision += 1
        item["metadata"]["resourceVersion"] = str(self.revision)
        if what == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = item
        self.history.append((self.revision, what, key, copy.deepcopy(item)))
        self._announce()
        return item

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Let go of everybody who waits."""
        self.closed.set()
        self._announce()

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for done, path in self.requests if done == method and part in path)

    # -- HTTP

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        body = await request.read()
        self.bodies.append(body)
        if self.on_request:
            await self.on_request(request)
        if self.tokens is not None and request.headers.get("Authorization", "") not in self.tokens:
            return web.json_response(status(401, "Unauthorized"), status=401)
        fault = next((known for known in self.faults if known.matches(request)), None)
        if fault is None:
            return await self._serve(request, body)
        self.faults.remove(fault)
        if fault.cut:
            if fault.cut == "after":
                await self._serve(request, body)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault.body is not None:
            return web.Response(body=fault.body, status=fault.code, headers=fault.headers)
        answer = status(fault.code, fault.reason, **fault.details)
        return web.json_response(answer, status=fault.code, headers=fault.headers)

    async def _serve(self, request: web.Request, body: bytes) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name, sub = (*parts, "", "")[:3]
        if request.query.get("watch") == "true":
            return await self._watch(request, plural, namespace)
        try:
            answer = self._act(request, plural, namespace, name, sub, json.loads(body) if body else {})
        except _RejectedError as refusal:
            return web.json_response(refusal.status, status=refusal.status["code"])
        return web.json_response(answer, status=201 if request.method == "POST" else 200)

    def _act(self, request: web.Request, plural: str, namespace: str, name: str, sub: str, body: Json) -> Json:
        key = (plural, namespace, name)
        if not name:
            if request.method == "GET":
                return self._list(request, plural, namespace)
            if request.method == "DELETE":
                for known in [known for known in self.objects if known[:2] == (plural, namespace)]:
                    self.remove(*known)
                return status(200, "Success")
            name = body["metadata"]["name"]
            if (plural, namespace, name) in self.objects:
                raise _RejectedError(409, "AlreadyExists")
            return self.put(plural, namespace, name, **body)
        result = self.objects.get(key)
        if result is None:
            raise _RejectedError(404, "NotFound", f"{plural} {name!r} not found")
        if request.method == "GET":
            return result
        if request.method == "DELETE":
            uid = body.get("preconditions", {}).get("uid")
            if uid and uid != result["metadata"]["uid"]:
                raise _RejectedError(409, "Conflict")
            return self.remove(*key)
        if sub == "binding":
            if result.get("spec", {}).get("nodeName") or body["metadata"].get("uid", "") not in {
                "",
                result["metadata"]["uid"],
            }:
                raise _RejectedError(409, "Conflict", "already assigned")
            self.put(*key, spec={**result.get("spec", {}), "nodeName": body["target"]["name"]}, metadata=_noted(body))
            return status(201, "Success")
        if sub == "eviction":
            return self.remove(*key)
        version = (body.get("metadata") or {}).pop("resourceVersion", None) if isinstance(body, dict) else None
        if version and version != result["metadata"]["resourceVersion"]:
            raise _RejectedError(409, "Conflict", "the object has been modified")
        changed = body if request.method == "PUT" else merged(result, body)
        changed["metadata"] = {**result["metadata"], **changed.get("metadata", {})}
        return self._record("MODIFIED", key, copy.deepcopy(changed))

    def _list(self, request: web.Request, plural: str, namespace: str) -> Json:
        onward = request.query.get("continue")
        if onward:
            if onward not in self._snapshots:
                raise _RejectedError(410, "Expired", "the provided continue parameter is too old")
            items = self._snapshots.pop(onward)
            version = onward.split("-")[0]
        else:
            items = [item for key, item in self.objects.items() if key[0] == plural and namespace in {"", key[1]}]
            version = str(self.revision)
        limit = int(request.query.get("limit") or 0)
        meta = {"resourceVersion": version}
        if limit and len(items) > limit:
            token = f"{version}-{len(self._snapshots)}-{len(items)}"
            self._snapshots[token] = items[limit:]
            meta["continue"] = token
            items = items[:limit]
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items or None}

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        plan = self.watches.popleft() if self.watches else WatchPlan()
        at = int(request.query["resourceVersion"])
        if plan.code or at < self.oldest:
            code = plan.code or 410
            return web.json_response(status(code, "Expired" if code == 410 else "Busy"), status=code)
        response = web.StreamResponse()
        await response.prepare(request)
        chosen = [entry for entry in self.history if entry[0] <= at and entry[2][0] == plural]
        pending = chosen[len(chosen) - min(plan.replay, len(chosen)) :]
        sent = 0
        try:
            while not self.closed.is_set():
                news = self._news
                pending += [entry for entry in self.history if entry[0] > at and entry[2][0] == plural]
                at = self.revision
                for _, what, key, item in pending:
                    if namespace not in {"", key[1]}:
                        continue
                    if plan.events is not None and sent >= plan.events:
                        break
                    await response.write(_line(what, item, spaced=plan.spaced) * (2 if plan.repeat else 1))
                    sent += 1
                pending = []
                if plan.events is not None and sent >= plan.events:
                    return await self._end(plan.ending, request, response)
                if plan.bookmarks:
                    await response.write(_line("BOOKMARK", {"metadata": {"resourceVersion": str(at)}}))
                await news.wait()
        except ConnectionResetError:
            pass
        return response

    async def _end(self, ending: str, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        if ending == "gone":
            await response.write(_line("ERROR", status(410, "Expired", "too old resource version")))
        elif ending == "error":
            await response.write(_line("ERROR", status(500, "InternalError", "etcd is unwell")))
        elif ending == "garbage":
            await response.write(b"<html>\n")
        elif ending == "silence":
            await self.closed.wait()
        elif ending in {"cut", "mid-line"}:
            if ending == "mid-line":
                await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"half')
            assert request.transport is not None
            request.transport.abort()
        return response


class _RejectedError(Exception):
    def __init__(self, code: int, reason: str, message: str = "") -> None:
        super().__init__(message)
        self.status = status(code, reason, message)


def _line(what: str, item: Json, *, spaced: bool = False) -> bytes:
    if spaced:
        return json.dumps({"object": item, "type": what}).encode() + b"\n"
    return json.dumps({"type": what, "object": item}, separators=(",", ":")).encode() + b"\n"


def _noted(binding: Json) -> Json:
    annotations = binding["metadata"].get("annotations")
    return {"annotations": annotations} if annotations else {}


def merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@asynccontextmanager
async def faulty_server() -> AsyncIterator[FaultyServer]:
    """A server on a port of its own."""
    server = FaultyServer()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.close()
        await runner.cleanup()


def connect(server: FaultyServer, credentials: Credentials | None = None) -> Connection:
    return Connection(server.url, credentials or Credentials())


class FakeTime:
    """A clock that only sleeping moves, and sleeping takes no time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
