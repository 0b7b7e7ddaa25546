"""A client that fails as scripted: rejected, or lost before or after the write. It also counts its requests."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NoAnswer, from_response


@dataclass
class Fault:
    """The outcome of one request: ``refusal`` is raised; with ``done`` the server executes it first."""

    refusal: KubeError
    done: bool = False


def refused(code: int = 403, message: str = "no") -> Fault:
    return Fault(from_response(code, b'{"kind":"Status","message":"%s"}' % message.encode()))


def lost(done: bool) -> Fault:
    return Fault(NoAnswer("http://here", "connection lost", maybe_applied=True), done)


@dataclass
class Script:
    """Faults by verb, one after the other; ``held`` verbs wait until the event is set; ``sent`` is what was asked."""

    faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    sent: list[tuple[str, str, str]] = field(default_factory=list)
    draw: Callable[[str], Fault | None] | None = None

    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, verb: str, count: int = 1) -> None:
        """Wait until so many requests of this verb have been sent."""
        while self.count(verb) < count:
            self.news.clear()
            await self.news.wait()

    def plan(self, verb: str, *faults: Fault) -> None:
        self.faults[verb].extend(faults)

    def count(self, verb: str = "", what: str = "") -> int:
        return sum(verb in {"", sent[0]} and what in {"", sent[1]} for sent in self.sent)

    def by_object(self) -> Counter[str]:
        return Counter(name for _, _, name in self.sent)

    async def do(self, verb: str, what: str, name: str, request: Callable[[], Awaitable[Any]]) -> Any:
        self.sent.append((verb, what, name))
        self.news.set()
        if verb in self.held:
            await self.held[verb].wait()
        fault = self.faults[verb].popleft() if self.faults[verb] else self.draw(verb) if self.draw else None
        if fault is None:
            return await request()
        if fault.done:
            await request()
        raise fault.refusal


class FlakyClient(Client):
    """The real client behind a script."""

    script: Script

    async def bind(self, namespace: str, pod: str, node: str, **more: Any) -> None:
        await self.script.do("bind", "pods", pod, lambda: super(FlakyClient, self).bind(namespace, pod, node, **more))

    async def patch_status(self, kind: Any, namespace: Any, name: str, *patch: Any, **more: Any) -> Any:
        return await self.script.do(
            "patch",
            kind.plural,
            name,
            lambda: super(FlakyClient, self).patch_status(kind, namespace, name, *patch, **more),
        )

    async def delete(self, kind: Any, namespace: Any, name: str, **more: Any) -> None:
        await self.script.do(
            "delete", kind.plural, name, lambda: super(FlakyClient, self).delete(kind, namespace, name, **more)
        )

    async def get(self, kind: Any, namespace: Any, name: str, **more: Any) -> Any:
        return await self.script.do(
            "get", kind.plural, name, lambda: super(FlakyClient, self).get(kind, namespace, name, **more)
        )

    async def create(self, kind: Any, namespace: Any, body: Any, **more: Any) -> Any:
        about = getattr(body.get("involvedObject"), "name", "") or body["metadata"]["name"]
        return await self.script.do(
            "create", kind.plural, about, lambda: super(FlakyClient, self).create(kind, namespace, body, **more)
        )
