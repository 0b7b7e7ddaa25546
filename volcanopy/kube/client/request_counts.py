"""Counts of API requests by verb and resource, each attempt counted, for the metrics and for benchmarks."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from volcanopy.kube.client.errors import ApiError

Observer = Callable[[str, str, str, float], None]
"""Takes the verb, the resource, the HTTP status (``none`` without a response) and the seconds of a request."""
observers: set[Observer] = set()
"""Called after each request of this process. Commands have none: they serve no metrics, and need not import them."""

WATCH = "WATCH"
"""The verb of a request whose response is a stream of changes."""


class RequestKey(NamedTuple):
    """An HTTP verb (or :data:`WATCH`), and a resource such as ``pods`` or ``pods/binding``."""

    verb: str
    resource: str


class ResponseStatus:
    """The HTTP status of a request, 0 until there is one."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = 0


class RequestCounts:
    """Counts of requests, shared by all clients of one connection."""

    def __init__(self) -> None:
        self.counts: Counter[RequestKey] = Counter()
        self.reads = 0
        """Reads that succeeded: a start that lists objects advances with them, whatever else it writes."""

    @contextmanager
    def request(self, verb: str, path: str) -> Iterator[ResponseStatus]:
        """Count a request to this path, which may end with a query, and measure it for the block, which sets the status."""
        key = RequestKey(verb, resource(path))
        self.counts[key] += 1
        answer, begun = ResponseStatus(), time.perf_counter()
        code = 0
        try:
            yield answer
        except ApiError as error:
            code = error.code
            raise
        finally:
            self.reads += verb in {"GET", WATCH} and 0 < answer.code < 300
            for observe in observers:
                observe(*key, str(answer.code or code or "none"), time.perf_counter() - begun)


def resource(path: str) -> str:
    """Return the resource of a path, such as ``pods/binding``; empty if it names none."""
    parts = path.partition("?")[0].split("/")
    # "", "api", version, ...  or  "", "apis", group, version, ...
    rest = parts[3:] if parts[1:2] == ["api"] else parts[4:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:3]])
