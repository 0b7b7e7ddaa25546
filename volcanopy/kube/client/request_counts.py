"""What has been asked of the API server over one connection: requests by verb and resource, each attempt counted.

Kept where requests leave, so that nothing that is sent goes uncounted; read by measurements and told to the metrics.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from prometheus_client import Counter as Total
from prometheus_client import Histogram

from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.metrics import registry

WATCH = "WATCH"
"""The verb of a request whose answer is a stream of changes."""


class RequestKey(NamedTuple):
    """A sort of request: an HTTP verb (or :data:`WATCH`), and a resource such as ``pods`` or ``pods/binding``."""

    verb: str
    resource: str


class Answer:
    """What came of a request: the HTTP status, 0 as long as none came."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = 0


class RequestCounts:
    """Counts requests. All clients of one connection share it."""

    def __init__(self) -> None:
        self.counts: Counter[RequestKey] = Counter()

    @property
    def total(self) -> int:
        """All requests so far."""
        return self.counts.total()

    def count(self, verb: str, path: str) -> None:
        """A request leaves, for this path (the query may stand behind it)."""
        self.counts[RequestKey(verb, resource(path))] += 1

    @contextmanager
    def answer(self, verb: str, path: str) -> Iterator[Answer]:
        """A request is under way for as long as the block lasts, in which the answer's status is noted."""
        answer, begun = Answer(), time.perf_counter()
        refused = 0
        try:
            yield answer
        except ApiError as refusal:
            refused = refusal.code
            raise
        finally:
            told = resource(path)
            _seconds(verb, told).observe(time.perf_counter() - begun)
            _requests(verb, told, str(answer.code or refused or "none")).inc()


@lru_cache(maxsize=1024)
def _requests(verb: str, resource: str, code: str) -> Total:
    return registry.REQUESTS.labels(verb, resource, code)


@lru_cache(maxsize=1024)
def _seconds(verb: str, resource: str) -> Histogram:
    return registry.REQUEST_SECONDS.labels(verb, resource)


def resource(path: str) -> str:
    """``pods/binding`` for ``/api/v1/namespaces/team/pods/one/binding``; empty where a path names no resource."""
    parts = path.partition("?")[0].split("/")
    # "", "api", version, ...  or  "", "apis", group, version, ...
    rest = parts[3:] if parts[1:2] == ["api"] else parts[4:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:3]])
