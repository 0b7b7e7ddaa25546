"""What pods hold of their node beyond amounts: which cards of it, which of its cpus.

It cannot be a column of numbers. It is written on the pod, as annotations that come with its binding, so that
it can be read from the pods of a node.
"""

from collections.abc import Mapping
from typing import NamedTuple

from volcanopy.api import core, names

KEYS = frozenset({names.GPU_INDEX, names.VGPU_IDS, names.TOPOLOGY_DECISION})
"""The annotations with such assignments."""


class AssignedPod(NamedTuple):
    """A pod with assigned devices or cpus: its row, and its annotations once it is bound."""

    row: int
    pod: core.Pod
    notes: Mapping[str, str]


AssignedPods = tuple[AssignedPod, ...]
"""Those of one node, ordered by the keys of the pods. It is another tuple whenever something about them changed."""


def holder(row: int, pod: core.Pod, coming: Mapping[str, str]) -> AssignedPod | None:
    """The pod as a holder, None if it is none; ``coming`` are the annotations of a binding that is on its way."""
    own = pod.metadata.annotations
    if KEYS.isdisjoint(own) and KEYS.isdisjoint(coming):
        return None
    return AssignedPod(row, pod, {**own, **coming} if coming else own)


def with_pod(known: AssignedPods, one: AssignedPod) -> AssignedPods:
    """With one more."""
    return tuple(sorted((*known, one), key=lambda each: each.pod.metadata.key))


def without(known: AssignedPods, row: int) -> AssignedPods:
    """Without the pod of this row; the same tuple if it is not among them."""
    return tuple(one for one in known if one.row != row) if any(one.row == row for one in known) else known
