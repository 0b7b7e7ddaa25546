"""The port of the plugin ``extender`` over HTTP.

Requests are made from the thread that decides a cycle, so they are not on the event loop. The answers to several requests are
awaited at once, over connections that stay open.
"""

import http.client
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from urllib.parse import SplitResult, urlsplit

import structlog

from volcanopy.kube import machine
from volcanopy.kube.metrics import registry
from volcanopy.scheduler.model.extender_port import Answer

log = structlog.get_logger(__name__)

_AT_ONCE = 16
"""Most requests at once, as in Volcano."""
_LARGEST = 10 * 2**20
"""Most bytes of an answer, as in Volcano."""


class HttpExtender:
    """Asks over HTTP; used as a context, which closes the connections."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, "extender")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: set[http.client.HTTPConnection] = set()
        self._problem = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for connection in self._connections:
                connection.close()

    def ask(self, url: str, timeout: float, requests: Sequence[bytes]) -> Sequence[Answer]:
        """Ask; after a request without an answer, those that have not begun get the same error."""
        failed: list[Answer] = []

        def post(request: bytes) -> Answer:
            if failed:
                return failed[0]
            answer = self._post(url, timeout, request)
            if answer.down:
                failed.append(answer)
            return answer

        answers = [post(requests[0])] if len(requests) == 1 else [*self._threads.map(post, requests)]
        self._note(next((answer.error for answer in answers if answer.error), ""))
        return answers

    def _post(self, url: str, timeout: float, body: bytes) -> Answer:
        address, verb = urlsplit(url), url.rpartition("/")[2]
        began = machine.monotonic()
        try:
            status, content = self._exchange(address, timeout, body)
        except (OSError, http.client.HTTPException) as error:
            self._forget(address)
            reason = str(error) or type(error).__name__
            answer = Answer(error=f"extender {url} does not answer within {timeout:g} s: {reason}", down=True)
        else:
            answer = Answer(content)
            if status != http.HTTPStatus.OK:
                answer = Answer(error=f"extender {url} returned {status}, not 200")
            elif len(content) > _LARGEST:
                answer = Answer(error=f"extender {url} returned more than {_LARGEST} bytes")
        registry.EXTENDER_LATENCY.labels(verb).observe(machine.monotonic() - began)
        result = "down" if answer.down else "error" if answer.error else "ok"
        registry.EXTENDER_REQUESTS.labels(verb, result).inc()
        return answer

    def _exchange(self, address: SplitResult, timeout: float, body: bytes) -> tuple[int, bytes]:
        """Post over the connection of this thread; a connection that the extender has closed meanwhile is opened again."""
        for is_last in (False, True):
            connection, is_new = self._connection(address, timeout)
            try:
                connection.request("POST", address.path, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                return response.status, response.read(_LARGEST + 1)
            except (http.client.RemoteDisconnected, ConnectionError):
                self._forget(address)
                if is_new or is_last:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _connection(self, address: SplitResult, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        known: dict[str, http.client.HTTPConnection] = self._local.__dict__.setdefault("connections", {})
        connection = known.get(address.netloc)
        if connection is not None:
            connection.timeout = timeout
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            return connection, False
        host = address.hostname or ""
        if address.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, address.port, timeout=timeout, context=context)
        else:
            connection = http.client.HTTPConnection(host, address.port, timeout=timeout)
        known[address.netloc] = connection
        with self._lock:
            self._connections.add(connection)
        return connection, True

    def _forget(self, address: SplitResult) -> None:
        known: dict[str, http.client.HTTPConnection] = self._local.__dict__.get("connections", {})
        connection = known.pop(address.netloc, None)
        if connection is not None:
            connection.close()
            with self._lock:
                self._connections.discard(connection)

    def _note(self, problem: str) -> None:
        """Log a problem when it begins, and its end."""
        if problem == self._problem:
            return
        if problem:
            log.warning("extender failed", problem=problem)
        else:
            log.info("extender answers again")
        self._problem = problem
