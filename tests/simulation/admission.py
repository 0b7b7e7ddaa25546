"""Admission in a simulation: the whole service and the API server's webhook client, over the simulated network without TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

from aiohttp import web

from embedded_apiserver.context import User
from embedded_apiserver.webhooks import calls
from volcanopy.admission.context import AdmissionPolicy
from volcanopy.kube import machine
from volcanopy.kube.client.connection import Connection
from volcanopy.services.admission import admission_service
from volcanopy.services.admission.admission_service import AdmissionSettings

FailurePolicy = Literal["", "Fail", "Ignore"]
"""Of the webhooks; empty without webhooks."""
PORT = 9443
CONTROLLERS = "system:serviceaccount:volcanopy-system:volcanopy-controllers"
USERS = {
    "controllers": User(CONTROLLERS, ("system:authenticated", "system:serviceaccounts")),
    "user": User("ana", ("system:authenticated",)),
}
"""The users of bearer tokens; all other requests are the administrator's."""


class Reviews:
    """The faults of the webhooks' answers at this moment."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"reviews {seed}")
        self.pause = 0.0
        self.failing = 0.0
        """The part of the reviews that is answered by an error or by something else than a review."""

    @web.middleware
    async def spoil(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Delay the answer, or replace it."""
        if self.pause:
            await asyncio.sleep(self.pause)
        if self._rng.random() < self.failing:
            if self._rng.random() < 0.5:
                return web.json_response({"error": "spoiled by the simulation"}, status=500)
            return web.Response(body=b"<html>a page</html>")
        return await handler(request)


class _Keyring:
    """A key that all servers share, as in a Secret, and no certificates."""

    context = None
    trusted = b""

    def shared_key(self) -> str:
        return "the key of a simulation"

    async def renew(self, published: bytes = b"") -> None:
        return


def _keyring(*_: Any) -> _Keyring:
    return _Keyring()


@contextmanager
def without_tls(reviews: Reviews) -> Iterator[None]:
    """Let admission serve plain HTTP on the simulated network, and the API server ask it there."""
    application, address = admission_service.application, calls.Webhooks._address

    def spoiled(*arguments: Any) -> web.Application:
        app = application(*arguments)
        app.middlewares.insert(0, reviews.spoil)
        return app

    def plain(self: calls.Webhooks, hook: calls.Hook) -> tuple[str, None]:
        return address(self, hook)[0].replace("https:", "http:"), None

    with ExitStack() as patches:
        for target, name, value in (
            (admission_service, "application", spoiled),
            (admission_service, "_keyring", _keyring),
            (machine, "freeze_garbage_collector", lambda: None),
            (calls.Webhooks, "_address", plain),
            (calls, "Trust", lambda _: SimpleNamespace(context=True)),
        ):
            patches.enter_context(mock.patch.object(target, name, value))
        yield


async def serve(connection: Connection, policy: FailurePolicy, stop: asyncio.Event, ready: asyncio.Event) -> None:
    """Run the admission service."""
    settings = AdmissionSettings(
        port=PORT, fail_closed=policy == "Fail", unregister=False, policy=AdmissionPolicy(controllers=[CONTROLLERS])
    )
    await admission_service.run(connection, settings, stop, ready)
