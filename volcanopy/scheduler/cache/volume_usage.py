"""Which volumes the pods on each node use, kept current one pod and one claim at a time.

A volume counts once on a node, however many pods use it there. A claim that has no volume yet counts as one of the
driver that will make it.
"""

from collections import Counter
from collections.abc import Callable

Volume = tuple[str, str]
"""The driver, and what it calls the volume."""


class Attached:
    """The volumes in use, by driver and node."""

    def __init__(self, resolve: Callable[[str], Volume | None]) -> None:
        """``resolve`` returns the volume behind a claim's key, None if volumes of its driver are not counted."""
        self._resolve = resolve
        self._users: dict[str, Counter[str]] = {}
        self._behind: dict[str, Volume] = {}
        self._volumes: dict[str, dict[str, Counter[str]]] = {}

    def use(self, claim: str, node: str, sign: int) -> None:
        """A pod that uses the claim comes to a node (+1) or leaves it (-1)."""
        users = self._users.get(claim)
        if users is None:
            users = self._users[claim] = Counter()
            volume = self._resolve(claim)
            if volume is not None:
                self._behind[claim] = volume
        users[node] += sign
        volume = self._behind.get(claim)
        if volume is not None:
            self._count(volume, node, sign)
        if not users[node]:
            del users[node]
            if not users:
                del self._users[claim]
                self._behind.pop(claim, None)

    def resolve_again(self, claim: str) -> None:
        """Something changed about the volume behind a claim."""
        users = self._users.get(claim)
        if users is None:
            return
        before, now = self._behind.get(claim), self._resolve(claim)
        if before == now:
            return
        for node, times in users.items():
            if before is not None:
                self._count(before, node, -times)
            if now is not None:
                self._count(now, node, times)
        if now is None:
            self._behind.pop(claim, None)
        else:
            self._behind[claim] = now

    def resolve_all_again(self) -> None:
        """Something changed about what makes volumes."""
        for claim in list(self._users):
            self.resolve_again(claim)

    def counts(self) -> dict[str, dict[str, int]]:
        """By driver and node: how many volumes."""
        return {
            driver: {node: len(result) for node, result in nodes.items()} for driver, nodes in self._volumes.items()
        }

    def _count(self, volume: Volume, node: str, times: int) -> None:
        driver, handle = volume
        nodes = self._volumes.setdefault(driver, {})
        handles = nodes.setdefault(node, Counter())
        handles[handle] += times
        if not handles[handle]:
            del handles[handle]
            if not handles:
                del nodes[node]
                if not nodes:
                    del self._volumes[driver]
