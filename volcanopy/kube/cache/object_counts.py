"""Counts of objects by group, kept up to date one object at a time."""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)


class ObjectCounts(Generic[G]):
    """The number of objects in each group that has any; an object is in one group or in none."""

    def __init__(self) -> None:
        self.counts: Counter[G] = Counter()
        self._groups: dict[str, G] = {}

    def put(self, key: str, group: G | None) -> set[G]:
        """Put an object into a group, or with None into none. Returns the groups whose numbers have changed."""
        before = self._groups.pop(key, None)
        if group is not None:
            self._groups[key] = group
        if before == group:
            return set()
        if group is not None:
            self.counts[group] += 1
        if before is not None:
            self.counts[before] -= 1
            if not self.counts[before]:
                del self.counts[before]
        return {item for item in (before, group) if item is not None}
