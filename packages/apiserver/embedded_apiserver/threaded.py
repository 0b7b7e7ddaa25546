"""The server in a thread of its own, for programs and tests without an event loop."""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from embedded_apiserver.manifests import read
from embedded_apiserver.server import ApiServer
from embedded_apiserver.store.object_store import Body

T = TypeVar("T")


class ThreadedServer:
    """A running server: its URL, the token of its administrator, and a kubeconfig file for it."""

    def __init__(self, server: ApiServer, loop: asyncio.AbstractEventLoop, kubeconfig: Path) -> None:
        self.url, self.token, self.kubeconfig = server.url, server.token, kubeconfig
        self._server, self._loop = server, loop

    def apply(self, *manifests: Body | Path | str) -> list[Body]:
        """Create or change objects as the administrator: each an object, or a path of manifests; return them.

        Raises ApiError with the message of the server, ManifestError.
        """
        objects = [body for item in manifests for body in ([item] if isinstance(item, dict) else read([Path(item)]))]
        return [_result(self._server.apply(body), self._loop) for body in objects]


@contextmanager
def serving(manifests: Iterable[Path | str] = (), **options: Any) -> Iterator[ThreadedServer]:
    """Serve an empty cluster to which the manifests in these files and folders are applied.

    ``options`` are those of :meth:`ApiServer.start`.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded API server", daemon=True)
    thread.start()
    try:
        server = _result(ApiServer.start(**options), loop)
        try:
            with tempfile.TemporaryDirectory() as folder:
                kubeconfig = Path(folder, "kubeconfig")
                kubeconfig.touch(mode=0o600)
                kubeconfig.write_text(server.kubeconfig(), encoding="utf-8")
                running = ThreadedServer(server, loop, kubeconfig)
                running.apply(*manifests)
                yield running
        finally:
            _result(server.stop(), loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _result(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
