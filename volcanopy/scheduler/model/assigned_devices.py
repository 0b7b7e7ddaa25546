"""Devices and cpus assigned to pods: GPU cards by index, cpus by number.

They are not amounts and therefore no columns. They are written as annotations when a pod is bound, and are read from the
pods of a node.
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
"""The assigned pods of one node, ordered by the keys of the pods. It is another tuple whenever something about them changed."""


def assigned_pod(row: int, pod: core.Pod, bind_annotations: Mapping[str, str]) -> AssignedPod | None:
    """Return the pod if it has assigned devices, else None; ``bind_annotations`` are those of an assumed bind."""
    own = pod.metadata.annotations
    if KEYS.isdisjoint(own) and KEYS.isdisjoint(bind_annotations):
        return None
    return AssignedPod(row, pod, {**own, **bind_annotations} if bind_annotations else own)


def with_pod(known: AssignedPods, pod: AssignedPod) -> AssignedPods:
    """Return the pods of a node with one more."""
    return tuple(sorted((*known, pod), key=lambda each: each.pod.metadata.key))


def without(known: AssignedPods, row: int) -> AssignedPods:
    """Return the pods without the pod of this row; the same tuple if it is not among them."""
    return tuple(pod for pod in known if pod.row != row) if any(pod.row == row for pod in known) else known
