"""What of the nodes does not change with placements, and what follows from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Index

OF_IMAGES = frozenset({"any images", "image locality", "image sizes", "scores of shapes"})
"""The kinds of answers in a memo that follow from nodes' images."""


class NodeTraits:
    """What of the nodes does not change with placements: labels, taints, images.

    It is shared by all snapshots until a node's traits change, and so are the results in ``memo`` (such as the mask
    of a node selector): what depends on traits alone is computed once, not once per cycle.
    """

    def __init__(self, objects: tuple[core.Node, ...], previous: "NodeTraits | None" = None) -> None:
        self.objects = objects
        self.memo: dict[Any, Any] = {}
        self.lasting: dict[Any, Any] = {} if previous is None else previous.lasting
        """Handed on to the traits that come after: who keeps something here sees to it that it is still valid."""
        self._codes: dict[str, tuple[Index, dict[str, int]]] = {}

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each node by its name."""
        return {node.metadata.name: row for row, node in enumerate(self.objects)}

    def with_images_of(self, objects: tuple[core.Node, ...]) -> "NodeTraits":
        """The traits of the same nodes when nothing but their images changed: only answers about images are forgotten."""
        newer = NodeTraits(objects, self)
        newer.memo = {kind: answers for kind, answers in self.memo.items() if kind not in OF_IMAGES}
        newer._codes = self._codes
        return newer

    def label(self, key: str) -> tuple[Index, dict[str, int]]:
        """A label as an (N,) column of value numbers, -1 where a node lacks it, and the number of each value."""
        known = self._codes.get(key)
        if known is None:
            numbers: dict[str, int] = {}
            codes = np.full(len(self.objects), -1, dtype=np.int32)
            for row, node in enumerate(self.objects):
                value = node.metadata.labels.get(key)
                if value is not None:
                    codes[row] = numbers.setdefault(value, len(numbers))
            known = self._codes[key] = (codes, numbers)
        return known
