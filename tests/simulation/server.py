"""The embedded API server with faults: refusals, lost answers, and processes that die at a write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tests.simulation.processes import Process
from volcanopy.local.apiserver.connections import Answer, Request
from volcanopy.local.apiserver.server import ApiServer
from volcanopy.local.apiserver.status_errors import ApiError
from volcanopy.local.apiserver.wire.representation import failure

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class FaultyServer(ApiServer):
    """A server whose answers can be spoiled; requests of users and of the kubelet are spared refusals."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.writes: Counter[str] = Counter()
        self._rng = Random("answers")
        self._refusals: list[tuple[int, float]] = []
        self._losses: list[float] = []
        self._killed: list[tuple[Process, int, str]] = []

    @contextmanager
    def rejecting(self, code: int, rate: float) -> Iterator[None]:
        """Refuse a part of the requests with this code."""
        self._refusals.append((code, rate))
        try:
            yield
        finally:
            self._refusals.remove((code, rate))

    @contextmanager
    def losing_answers(self, rate: float) -> Iterator[None]:
        """Lose the answers of a part of the requests that write, after they have taken effect."""
        self._losses.append(rate)
        try:
            yield
        finally:
            self._losses.remove(rate)

    def kill_at(self, process: Process, count: int, when: str) -> None:
        """Kill a process at its write of that number, counted from now."""
        self._killed.append((process, self.writes[process.name] + count, when))

    async def _handle(self, request: Request) -> Answer:
        writes = request.method != "GET"
        host = request._connection._transport.peer.host  # type: ignore[attr-defined]
        sender = host.rpartition("-")[0] or host
        if writes:
            self.writes[sender] += 1
            self._kill(sender, "before")
        for code, rate in self._refusals:
            if sender != "user" and self._rng.random() < rate and (writes or code != 409):
                return failure(ApiError(code, _REASONS[code], "spoiled by the simulation"), ())
        answer = await super()._handle(request)
        if writes:
            self._kill(sender, "after")
            if any(self._rng.random() < rate for rate in self._losses):
                request._connection.abort()
                raise ConnectionResetError("answer lost by the simulation")
        return answer

    def _kill(self, sender: str, when: str) -> None:
        due = [entry for entry in self._killed if entry[0].name == sender and entry[2] == when]
        for entry in due:
            if self.writes[sender] >= entry[1]:
                self._killed.remove(entry)
                entry[0].kill()
                raise ConnectionResetError("the client has died")
