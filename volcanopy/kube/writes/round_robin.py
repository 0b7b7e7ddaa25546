"""Items that wait, handed out round robin by namespace: those of one user do not delay those of others."""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def namespace_of(key: str) -> str:
    """Return the namespace of a key ``namespace/name``; each key without a namespace stands for itself."""
    return key.partition("/")[0]


class RoundRobin(Generic[K, V]):
    """Items with values by namespace; within a namespace, the one that was added first is the first to go."""

    def __init__(self) -> None:
        self._items: dict[str, dict[K, V]] = {}
        """The namespace of the next item comes first."""

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[tuple[str, K]]:
        return iter([(namespace, item) for namespace, items in self._items.items() for item in items])

    def add(self, namespace: str, item: K, value: V) -> None:
        """Add an item; one that waits already keeps its value and its position."""
        self._items.setdefault(namespace, {}).setdefault(item, value)

    def take(self) -> tuple[K, V]:
        """Remove the next item; return it with its value."""
        namespace, items = next(iter(self._items.items()))
        item = next(iter(items))
        return item, self._remove(namespace, item)

    def discard(self, namespace: str, item: K) -> None:
        """Remove an item, if it waits; the order of the others is unchanged."""
        items = self._items.get(namespace, {})
        if items.pop(item, None) is not None and not items:
            del self._items[namespace]

    def _remove(self, namespace: str, item: K) -> V:
        """Remove an item; the others of its namespace come after those of other namespaces."""
        items = self._items.pop(namespace)
        value = items.pop(item)
        if items:
            self._items[namespace] = items
        return value
