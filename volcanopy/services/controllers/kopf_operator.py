"""The operator that kopf runs for the controllers: one handler for each kind, which passes events on.

Importing this module imports kopf, which takes 0.15 s of processor time.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import aiohttp

from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind


@contextlib.contextmanager
def _not_imported(*names: str) -> Iterator[None]:
    """Let imports of modules that are not imported yet fail, as if they were not installed."""
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's mark for it
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# kopf takes objects of these clients, which nothing here passes: 400 modules, 0.3 s and 22 MiB.
with _not_imported("kubernetes", "pykube"):
    import kopf

_BACKOFFS = (0.2, 1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
"""Seconds between the attempts of a request."""
_EXIT = 0.5
"""Seconds in which the watch of a kind ends."""
_IDENTITY = "volcanopy"
"""For peers, of which there are none: kopf would look up the names of the user, whom the machine need not have, and the host."""

Deliver = Callable[[Kind[Json], str | None, Json], None]
"""Called with a kind, the type of an event (None: the object was listed), and the object."""


async def spawn_tasks(
    connection: Connection, session: Callable[[], aiohttp.ClientSession], kinds: Sequence[Kind[Json]], deliver: Deliver
) -> "Collection[asyncio.Task[Any]]":
    """Start the tasks of an operator that watches these kinds; ``session`` returns a session with our credentials."""
    logging.getLogger("kopf").setLevel(logging.ERROR)  # what ends a watch is raised, what is tried again is no news
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            aiohttp_session=session(), server=connection.url, default_namespace=connection.namespace
        )

    for kind in kinds:
        _watch(kind, deliver, registry)
    return await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(),
        clusterwide=True,
        standalone=True,
        identity=_IDENTITY,  # type: ignore[arg-type]  # the type of kopf is private
    )


def _watch(kind: Kind[Json], deliver: Deliver, registry: kopf.OperatorRegistry) -> None:
    @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"{kind.plural}.{kind.group}")
    async def handle(event: Any, **_: Any) -> None:
        deliver(kind, event["type"], event["object"])


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # kinds that appear later are noticed by us, without a watch of all definitions
    settings.process.ultimate_exiting_timeout = None  # it would kill the process
    settings.queueing.exit_timeout = _EXIT
    settings.watching.connect_timeout = 10.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _BACKOFFS
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.persistence.progress_storage = _NoProgress()
    return settings


class _NoDifferences(kopf.DiffBaseStorage):
    """Stores no last state in objects, and computes none: it would copy each object."""

    def build(self, *, body: Any, extra_fields: Iterable[Any] | None = None) -> Any:
        return {}

    def fetch(self, *, body: Any) -> None:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers in objects."""

    def fetch(self, *, key: Any, body: Any) -> None:
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        return None

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        return None

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence
