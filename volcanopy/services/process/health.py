"""Health and metrics endpoints: ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics``.

*Live* means that a restart would not help; *ready* that the caches are synced. A standby is both. With ``?verbose`` each check
is listed in the format of Kubernetes components.
"""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from volcanopy.kube import machine
from volcanopy.kube.client.request_metrics import measure_requests
from volcanopy.kube.metrics.former_names import FormerNames
from volcanopy.kube.metrics.registry import REGISTRY

STALE_AFTER = 300.0
"""Seconds for which a watch may fail until the process counts as unhealthy."""
Check = Callable[[], str]
"""Returns the problem, empty without one."""


class Watch(Protocol):
    """A watch cache of one kind."""

    @property
    def fault(self) -> str:
        """The error that keeps it from being up to date, empty without one."""

    @property
    def faulty_since(self) -> float | None:
        """The time of the first such error (monotonic seconds)."""


@dataclass(frozen=True)
class MetricsAccess:
    """Where metrics are served, and to whom.

    Without a ``port`` the listener of the health endpoints serves them, with one a listener of their own. With a
    ``token_file`` a request needs the header ``Authorization: Bearer`` with its content, which is read at each request.
    """

    port: int | None = None
    token_file: Path | None = None
    former_names: bool = False
    """Whether renamed metrics are served under their former names too."""

    def route(self) -> web.RouteDef:
        """Return the route of ``/metrics``. Raises OSError if the token cannot be read."""
        if self.token_file is not None:
            self._token()

        async def metrics(request: web.Request) -> web.Response:
            if self.token_file is not None and not self._is_authorized(request):
                return web.Response(status=401, text="unauthorized: metrics require the bearer token of this process")
            return self._response(request)

        return web.get("/metrics", metrics)

    def _response(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = encode(REGISTRY)
        if self.former_names:
            former = CollectorRegistry()
            former.register(FormerNames(REGISTRY))
            body = body.removesuffix(b"# EOF\n") + encode(former)
        return web.Response(body=body, headers={"Content-Type": content_type})

    def _is_authorized(self, request: web.Request) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            required = self._token()
        except OSError:
            return False
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), required)

    def _token(self) -> bytes:
        assert self.token_file is not None
        try:
            token = self.token_file.read_bytes().strip()
        except OSError as fault:
            raise OSError(f"--metrics-token: cannot read {self.token_file}: {fault.strerror}") from fault
        if not token:
            raise OSError(f"--metrics-token: {self.token_file} is empty: write a token into it")
        return token


class Health:
    """The checks of one process. They run at each request, so they must be fast."""

    def __init__(self) -> None:
        self.live: dict[str, Check] = {}
        """Checks whose failure requires a restart."""
        self.ready: dict[str, Check] = {}
        """Further checks of readiness."""
        self.facts: dict[str, Callable[[], str]] = {}
        """Other information, such as the leader; one line each."""
        self.farewell: Callable[[], object] = lambda: None
        """Called on another thread before a process ends whose event loop stands still."""

    def call_farewell(self) -> None:
        """Call the farewell of the service that runs now."""
        self.farewell()

    def alive(self) -> dict[str, str]:
        """Return the problem of each liveness check."""
        return {name: check() for name, check in self.live.items()}

    def prepared(self) -> dict[str, str]:
        """Return the problem of each readiness check, liveness included."""
        return {**self.alive(), **{name: check() for name, check in self.ready.items()}}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, for a server that may have others."""

        async def live(request: web.Request) -> web.Response:
            return self._response(request, self.alive())

        async def ready(request: web.Request) -> web.Response:
            return self._response(request, self.prepared())

        return [web.get("/livez", live), web.get("/healthz", live), web.get("/readyz", ready)]

    def _response(self, request: web.Request, problems: dict[str, str]) -> web.Response:
        failed = any(problems.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in problems.items()]
        lines += [f"{name}: {fact()}" for name, fact in self.facts.items()]
        lines.append(f"{request.path.lstrip('/')} check {'failed' if failed else 'passed'}")
        return web.Response(text="\n".join(lines) + "\n", status=503 if failed else 200)


@contextlib.asynccontextmanager
async def serving(
    health: Health, host: str, port: int, metrics: MetricsAccess = MetricsAccess()
) -> AsyncIterator[tuple[str, str]]:
    """Serve health and metrics on this address (port 0: a free one) and yield their URLs.

    Raises OSError with a remedy if an address is in use.
    """
    measure_requests()
    async with contextlib.AsyncExitStack() as stack:
        own = metrics.port is not None
        routes = [*health.routes(), *([] if own else [metrics.route()])]
        address = await stack.enter_async_context(_listening(routes, host, port, "health endpoints", "--health-port"))
        if metrics.port is None:
            yield address, address
            return
        listener = _listening([metrics.route()], host, metrics.port, "metrics", "--metrics-port")
        yield address, await stack.enter_async_context(listener)


@contextlib.asynccontextmanager
async def _listening(
    routes: Iterable[web.RouteDef], host: str, port: int, what: str, option: str
) -> AsyncIterator[str]:
    """Serve routes on this address for the duration of the block and yield the URL."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as fault:
            why = fault.strerror or str(fault)
            raise OSError(
                f"{what} cannot listen on {host}:{port}, set another --bind-address or {option}: {why}"
            ) from fault
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


class Heartbeat:
    """A check that an activity is repeated: at most ``limit`` seconds from one completion to the next."""

    def __init__(self, what: str, limit: float, clock: Callable[[], float] = machine.monotonic) -> None:
        self._what, self._limit, self._clock = what, limit, clock
        self._since: float | None = None

    def beat(self) -> None:
        """Note a completion, or expect completions from now on."""
        self._since = self._clock()

    def problem(self) -> str:
        """Return the problem if the last completion is too long ago."""
        if self._since is None or (passed := self._clock() - self._since) <= self._limit:
            return ""
        return f"no successful {self._what} for {passed:.0f} s (limit {self._limit:g} s)"


def stale_watches(watches: Callable[[], Iterable[Watch]], clock: Callable[[], float] = machine.monotonic) -> Check:
    """Return the check that no watch has failed for longer than :data:`STALE_AFTER`."""

    def problem() -> str:
        stale = [(watch.faulty_since, watch.fault) for watch in watches() if watch.faulty_since is not None]
        since, fault = min(stale, default=(clock(), ""))
        passed = clock() - since
        return "" if passed <= STALE_AFTER else f"watch stale for {passed:.0f} s (limit {STALE_AFTER:g} s): {fault}"

    return problem


def unsynced(events: Callable[[], Iterable[tuple[str, asyncio.Event]]]) -> Check:
    """Return the check that all kinds have been listed; ``events`` returns their plurals, each with its event."""

    def problem() -> str:
        missing = [name for name, event in events() if not event.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    return problem
