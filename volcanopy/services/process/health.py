"""What a process says of itself to whoever looks after it: ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics``.

*Live* means that a new start would not help; *ready* that the process knows the cluster. One that stands by for the
leader is both: it is to be left alone, and ready to take over. With ``?verbose`` each check is told, in the form of
Kubernetes' own components.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from volcanopy.kube.metrics.registry import REGISTRY

Check = Callable[[], str]
"""What is wrong, as a sentence without its stop; empty if nothing is."""


class Watch(Protocol):
    """A copy of the objects of a kind that is kept up to date."""

    @property
    def fault(self) -> str:
        """What keeps it from being up to date now; empty when nothing does."""

    @property
    def faulty_since(self) -> float | None:
        """Since when (monotonic seconds) that is so."""


class Health:
    """The checks of one process. They are asked anew at each question, so they must be quick."""

    def __init__(self) -> None:
        self.live: dict[str, Check] = {}
        """What must hold, lest the process be started again."""
        self.ready: dict[str, Check] = {}
        """What must hold besides for the process to be ready."""
        self.facts: dict[str, Callable[[], str]] = {}
        """What else there is to know, such as who leads; a line each."""

    def alive(self) -> dict[str, str]:
        """The problem of each check that tells whether the process lives."""
        return {name: check() for name, check in self.live.items()}

    def prepared(self) -> dict[str, str]:
        """The same for readiness: what does not live is not ready either."""
        return {**self.alive(), **{name: check() for name, check in self.ready.items()}}

    def routes(self) -> list[web.RouteDef]:
        """The paths, for a server that may have others too."""

        async def live(request: web.Request) -> web.Response:
            return self._told(request, self.alive())

        async def ready(request: web.Request) -> web.Response:
            return self._told(request, self.prepared())

        return [
            web.get("/livez", live),
            web.get("/healthz", live),
            web.get("/readyz", ready),
            web.get("/metrics", _metrics),
        ]

    def _told(self, request: web.Request, problems: dict[str, str]) -> web.Response:
        failed = any(problems.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in problems.items()]
        lines += [f"{name}: {fact()}" for name, fact in self.facts.items()]
        lines.append(f"{request.path.lstrip('/')} check {'failed' if failed else 'passed'}")
        return web.Response(text="\n".join(lines) + "\n", status=503 if failed else 200)


async def _metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})


@contextlib.asynccontextmanager
async def serving(health: Health, host: str, port: int) -> AsyncIterator[str]:
    """Answer on this address (port 0 takes a free one); gives the URL. Raises OSError with a sentence if it is taken."""
    app = web.Application()
    app.add_routes(health.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as fault:
            why = fault.strerror or str(fault)
            raise OSError(
                f"health cannot be told on {host}:{port}, give another --bind-address or --health-port: {why}"
            ) from fault
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


class Heartbeat:
    """Whether what is to be done again and again is done: ``limit`` is the longest time in seconds from one to the next."""

    def __init__(self, what: str, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._limit, self._clock = what, limit, clock
        self._since: float | None = None

    def beat(self) -> None:
        """It has been done, or is expected from now on."""
        self._since = self._clock()

    def rest(self) -> None:
        """It is not expected any more."""
        self._since = None

    def problem(self) -> str:
        """What is to be said when it has not been done for too long."""
        if self._since is None or (passed := self._clock() - self._since) <= self._limit:
            return ""
        return f"no {self._what} has come to a good end for {passed:.0f} s (limit {self._limit:g} s)"


def stale_watches(
    watches: Callable[[], Iterable[Watch]], limit: float, clock: Callable[[], float] = time.monotonic
) -> Check:
    """The check that no watch has failed for longer than ``limit`` seconds."""

    def problem() -> str:
        dead = [(one.faulty_since, one.fault) for one in watches() if one.faulty_since is not None]
        since, fault = min(dead, default=(clock(), ""))
        passed = clock() - since
        return (
            "" if passed <= limit else f"the cluster has not been heard for {passed:.0f} s (limit {limit:g} s): {fault}"
        )

    return problem


def unsynced(events: Callable[[], Iterable[tuple[str, asyncio.Event]]]) -> Check:
    """The check that everything has been listed once: the events that tell so, by the plural of their kind."""

    def problem() -> str:
        missing = [name for name, event in events() if not event.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    return problem
