"""The order of queues while an action considers one job after another.

The key of a queue depends on the amounts of the queue and of its ancestors. So what one queue is allocated changes the order
of its siblings by its own key only, and that of its ancestors' siblings by theirs:

1. The queues are the leaves of their tree. The children of each part of the tree are sorted by the keys of their first queues.
2. The first queue is found from the root down. When it was considered, it and each ancestor are sorted in anew among their
   siblings, from the queue up: a few comparisons a level, with keys of that moment.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import QueueView

OrderTree = Callable[[], tuple[int, Sequence[Sequence[int]]]]
"""``order_tree`` of a policy that orders queues by a tree of its own: how often the whole order changed, and for each queue the
parts of the tree from the top down to it.
"""


class _TreeNode:
    """A part of the tree with its children, sorted; a leaf is a queue."""

    __slots__ = ("children", "depth", "parent", "row")

    def __init__(self, parent: "_TreeNode | None", row: int = -1) -> None:
        self.parent, self.row = parent, row
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: list[_TreeNode] = []
        if parent is not None:
            parent.children.append(self)

    def first(self) -> "_TreeNode":
        """Return the first queue."""
        part = self
        while part.children:
            part = part.children[0]
        return part


class QueueOrder:
    """The queues with jobs to consider, given by their rows; ``key`` returns the current sort key of a queue."""

    def __init__(self, session: Session, rows: Iterable[int], key: Callable[[QueueView], Any]) -> None:
        self._queue, self._key = session.cluster.queue, key
        trees = (getattr(plugin, "order_tree", None) for plugin in session.plugins)  # a Protocol takes much longer
        self._tree: OrderTree | None = next(filter(None, trees), None)
        self._version: int = 0
        paths: Sequence[Sequence[int]] | None = None
        if self._tree is not None:
            self._version, paths = self._tree()
        lines = session.snapshot.queues.line_lists
        self._root = _TreeNode(None)
        self._parts: dict[int, _TreeNode] = {}
        self._count = 0
        for row in rows:
            self._add(row, reversed(lines[row]) if paths is None else paths[row])
        self._sort()

    def _add(self, row: int, path: Iterable[int]) -> None:
        part = self._root
        for number in path:
            if number not in self._parts:
                self._parts[number] = _TreeNode(part)
            part = self._parts[number]
        _TreeNode(part, row)
        self._count += 1

    def _sort(self) -> None:
        for part in sorted((self._root, *self._parts.values()), key=lambda part: -part.depth):
            if len(part.children) > 1:
                part.children.sort(key=self._key_of)

    def _key_of(self, part: _TreeNode) -> Any:
        return self._key(self._queue(part.first().row))

    def __len__(self) -> int:
        return self._count

    def first(self) -> QueueView:
        """Return the first queue; :meth:`settle` must follow."""
        if self._tree is not None and self._version != (version := self._tree()[0]):
            self._version = version
            self._sort()
        return self._queue(self._root.first().row)

    def settle(self, *, stays: bool) -> None:
        """Sort the first queue in anew, which was considered, or remove it."""
        part, self._count = self._root.first(), self._count - (not stays)
        while part.parent is not None:
            siblings = part.parent.children
            del siblings[0]
            if stays and siblings:
                key = self._key_of(part)
                is_last = self._key_of(siblings[-1]) < key  # of queues with equal jobs and weights it is
                place = len(siblings) if is_last else bisect.bisect(siblings, key, key=self._key_of)
                siblings.insert(place, part)
            elif stays:
                siblings.append(part)
            part, stays = part.parent, bool(siblings)
