"""Volumes in use on each node, updated one pod and one claim at a time.

A volume counts once per node, however many pods use it there. An unbound claim counts for the driver that will provision
its volume.
"""

from collections import Counter
from collections.abc import Callable

Volume = tuple[str, str]
"""The driver and the volume handle."""


class AttachedVolumes:
    """The volumes in use, by driver and node."""

    def __init__(self, resolve: Callable[[str], Volume | None]) -> None:
        """``resolve`` returns the volume of a claim by key, None if it has no attach limit."""
        self._resolve = resolve
        self._users: dict[str, Counter[str]] = {}
        self._volume_of: dict[str, Volume | None] = {}
        self._volumes: dict[str, dict[str, Counter[str]]] = {}

    def use(self, claim: str, node: str, sign: int) -> None:
        """Count a pod that uses the claim on a node (+1), or no longer (-1)."""
        users = self._users.get(claim)
        if users is None:
            users = self._users[claim] = Counter()
            self._volume_of[claim] = self._resolve(claim)
        users[node] += sign
        volume = self._volume_of[claim]
        if volume is not None:
            self._add(volume, node, sign)
        if not users[node]:
            del users[node]
            if not users:
                del self._users[claim], self._volume_of[claim]

    def resolve_again(self, claim: str) -> None:
        """Update the counts after a change of a claim or its volume."""
        users = self._users.get(claim)
        if users is None:
            return
        before, after = self._volume_of[claim], self._resolve(claim)
        if before == after:
            return
        for node, count in users.items():
            if before is not None:
                self._add(before, node, -count)
            if after is not None:
                self._add(after, node, count)
        self._volume_of[claim] = after

    def resolve_all_again(self) -> None:
        """Update the counts after a change of a storage class."""
        for claim in list(self._users):
            self.resolve_again(claim)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of volumes by driver and node."""
        return {driver: {node: len(used) for node, used in nodes.items()} for driver, nodes in self._volumes.items()}

    def _add(self, volume: Volume, node: str, count: int) -> None:
        driver, handle = volume
        nodes = self._volumes.setdefault(driver, {})
        handles = nodes.setdefault(node, Counter())
        handles[handle] += count
        if not handles[handle]:
            del handles[handle]
            if not handles:
                del nodes[node]
                if not nodes:
                    del self._volumes[driver]
