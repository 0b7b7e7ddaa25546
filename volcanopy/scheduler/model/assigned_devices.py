"""What pods hold of their node beyond amounts: which cards of it, which of its cpus.

No column of numbers can say that. It is written on the pod, as annotations that come with its binding, so that nobody
has to remember it: whoever reads the pods of a node knows what is taken there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from volcanopy.api import core, names

KEYS = frozenset({names.GPU_INDEX, names.VGPU_IDS, names.TOPOLOGY_DECISION})
"""The annotations that say so."""


class AssignedPod(NamedTuple):
    """A pod that holds particular things of its node: its row, and what its annotations say or will say once it is bound."""

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
