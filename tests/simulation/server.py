"""The embedded API server with faults: refusals, lost answers, stale and repeated events, and processes that die at a write."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any, TypeVar

from embedded_apiserver.connections import Answer, Request, Response
from embedded_apiserver.crud.custom_resources import BUCKET, DefinitionStrategy
from embedded_apiserver.server import ApiServer
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.object_store import Body
from embedded_apiserver.wire.representation import failure
from tests.simulation.network import End
from tests.simulation.processes import Process
from volcanopy.api.crd import crds

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
T = TypeVar("T")
_VERSION = re.compile(r"resourceVersion=(\d+)")


@cache
def _definitions() -> tuple[Body, ...]:
    """Return our CustomResourceDefinitions as a server stores them."""
    strategy, stored = DefinitionStrategy(status=True), []
    for number, body in enumerate(crds()):
        body["metadata"] |= {"uid": f"definition-{number}", "creationTimestamp": "2027-01-01T00:00:00Z"}
        strategy.default(body)
        strategy.prepare_create(body)
        stored.append(body)
    return tuple(stored)


class FaultyServer(ApiServer):
    """A server whose answers can be spoiled; requests of users are spared."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.writes: Counter[str] = Counter()
        """Requests that write, by process."""
        self.work: Counter[str] = Counter()
        """The same without renewals of Leases."""
        self.rng = Random("answers")
        self._refusals: list[tuple[int, float]] = []
        self._losses: list[float] = []
        self._halves: list[float] = []
        self._repeats: list[int] = []
        self._killed: list[tuple[Process, int, str]] = []
        self._watches: dict[End, str] = {}

    def install_definitions(self) -> None:
        """Serve our kinds, without the requests that install them."""
        store = self.context.store
        for body in _definitions():
            store.put(store.bucket(BUCKET), {**body, "metadata": {**body["metadata"]}})

    @contextmanager
    def rejecting(self, code: int, rate: float) -> Iterator[None]:
        """Refuse a part of the requests with this code."""
        with _in(self._refusals, (code, rate)):
            yield

    @contextmanager
    def losing_answers(self, rate: float) -> Iterator[None]:
        """Lose the answers of a part of the requests that write, after they have taken effect."""
        with _in(self._losses, rate):
            yield

    @contextmanager
    def halving_lists(self, rate: float) -> Iterator[None]:
        """End the connection in the middle of a part of the lists."""
        with _in(self._halves, rate):
            yield

    @contextmanager
    def repeating_events(self, count: int) -> Iterator[None]:
        """Begin watches so many versions before the one that they ask for: events are delivered twice."""
        with _in(self._repeats, count):
            yield

    def lag_watches(self, host: str, choice: Random, seconds: float) -> None:
        """Deliver the events of some of a machine's watches later: its caches disagree about the order of writes."""
        until = asyncio.get_running_loop().time() + seconds
        for end in [end for end in self._watches if end.peer.host == host and choice.random() < 0.5]:
            end.late = until

    def kill_at(self, process: Process, count: int, when: str) -> None:
        """Kill a process at its write of that number, counted from now."""
        self._killed.append((process, self.writes[process.name] + count, when))

    async def _handle(self, request: Request) -> Answer:
        writes = request.method != "GET"
        end: End = request.connection._transport  # type: ignore[assignment]
        sender = end.peer.host.rpartition("-")[0] or end.peer.host
        if writes:
            self.writes[sender] += 1
            self.work[sender] += "/leases" not in request.target
            self._kill(sender, "before")
        if sender != "user":
            self._spoil(request, end)
            for code, rate in self._refusals:
                if self.rng.random() < rate and (code != 409 or request.method in {"PUT", "PATCH", "DELETE"}):
                    return failure(ApiError(code, _REASONS[code], "spoiled by the simulation"), ())
        answer = await super()._handle(request)
        if writes:
            self._kill(sender, "after")
            if any(self.rng.random() < rate for rate in self._losses):
                end.abort()
                raise ConnectionResetError("answer lost by the simulation")
        elif isinstance(answer, Response) and any(self.rng.random() < rate for rate in self._halves):
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer.body)}\r\n\r\n"
            end.write(head.encode() + answer.body[: len(answer.body) // 2])
            end.close()
            raise ConnectionResetError("half of the answer is lost by the simulation")
        return answer

    def _spoil(self, request: Request, end: End) -> None:
        """Note a watch, and let it begin earlier."""
        if "watch=" not in request.target:
            self._watches.pop(end, None)
            return
        self._watches = {known: path for known, path in self._watches.items() if not known.is_closing()}
        self._watches[end] = request.target
        asked = _VERSION.search(request.target)
        if self._repeats and asked is not None:
            version = max(int(asked.group(1)) - max(self._repeats), 1)
            request.target = _VERSION.sub(f"resourceVersion={version}", request.target)

    def _kill(self, sender: str, when: str) -> None:
        due = [entry for entry in self._killed if entry[0].name == sender and entry[2] == when]
        for entry in due:
            if self.writes[sender] >= entry[1]:
                self._killed.remove(entry)
                entry[0].kill()
                raise ConnectionResetError("the client has died")


@contextmanager
def _in(entries: list[T], entry: T) -> Iterator[None]:
    entries.append(entry)
    try:
        yield
    finally:
        entries.remove(entry)
