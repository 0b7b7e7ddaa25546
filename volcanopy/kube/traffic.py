"""What has been asked of the API server over one connection: requests by verb and resource, each attempt counted.

Kept where requests leave, so that nothing that is sent goes uncounted; read by measurements and by metrics.
"""

from collections import Counter
from typing import NamedTuple

WATCH = "WATCH"
"""The verb of a request whose answer is a stream of changes."""


class Asked(NamedTuple):
    """A sort of request: an HTTP verb (or :data:`WATCH`), and a resource such as ``pods`` or ``pods/binding``."""

    verb: str
    resource: str


class Traffic:
    """Counts requests. All clients of one connection share it."""

    def __init__(self) -> None:
        self.counts: Counter[Asked] = Counter()

    @property
    def total(self) -> int:
        """All requests so far."""
        return self.counts.total()

    def count(self, verb: str, path: str) -> None:
        """A request leaves, for this path (the query may stand behind it)."""
        self.counts[Asked(verb, resource(path))] += 1


def resource(path: str) -> str:
    """``pods/binding`` for ``/api/v1/namespaces/team/pods/one/binding``; empty where a path names no resource."""
    parts = path.partition("?")[0].split("/")
    # "", "api", version, ...  or  "", "apis", group, version, ...
    rest = parts[3:] if parts[1:2] == ["api"] else parts[4:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        rest = rest[2:]
    return "/".join([*rest[:1], *rest[2:3]])
