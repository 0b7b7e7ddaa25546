"""Disks that pods name themselves, in the ways from before there were claims: two pods on a node may not both write one."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.filters.pods.pod_counts import PodCounts
from volcanopy.scheduler.filters.traits.trait_cache import kept_of_shapes
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NodeTraits, ShapeTable

Disk = tuple[str, frozenset[str], bool]
"""The kind of disk, the names by which it is known (one in common makes it the same), and whether it is only read."""


def of(spec: core.PodSpec) -> tuple[Disk, ...]:
    """The disks of a pod."""
    return tuple(disk for volume in spec.volumes if volume.is_disk for disk in _disks(volume))


def _disks(volume: core.Volume) -> Iterator[Disk]:
    if volume.gce_persistent_disk is not None:
        said = volume.gce_persistent_disk
        yield "gce", frozenset({str(said.get("pdName"))}), bool(said.get("readOnly"))
    if volume.aws_elastic_block_store is not None:
        yield "aws", frozenset({str(volume.aws_elastic_block_store.get("volumeID"))}), False
    if volume.iscsi is not None:
        yield "iscsi", frozenset({str(volume.iscsi.get("iqn"))}), bool(volume.iscsi.get("readOnly"))
    if volume.rbd is not None:
        yield "rbd", frozenset(_images(volume.rbd)), bool(volume.rbd.get("readOnly"))


def _images(said: dict[str, Any]) -> Iterator[str]:
    """An image is the same if pool and name are, and one of the monitors."""
    for monitor in said.get("monitors") or ():
        yield f"{monitor}|{said.get('pool') or 'rbd'}|{said.get('image')}"


def conflict(mine: tuple[Disk, ...], theirs: tuple[Disk, ...]) -> bool:
    """Whether two pods cannot share a node: a disk of both that one of them writes."""
    return any(a[0] == b[0] and a[1] & b[1] and not (a[2] and b[2]) for a in mine for b in theirs)


def taken(shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts) -> Callable[[Rows], Mask] | None:
    """Says of node rows whether a disk that the shape wants is taken there; None if the shape wants none."""
    known = kept_of_shapes(traits, "disks", shapes, lambda: _by_shape(shapes))
    own = known.get(shape)
    if own is None:
        return None

    def values() -> Mask:
        rivals = np.zeros(len(shapes.specs), dtype=np.bool_)
        rivals[[number for number, disks in known.items() if conflict(own, disks)]] = True
        return rivals[pod_counts.snapshot.tasks.shape]

    tally = pod_counts.tally(("disks", own), values, leaving=True)
    return lambda rows: tally.counts[rows] > 0


def _by_shape(shapes: ShapeTable) -> dict[int, tuple[Disk, ...]]:
    return {number: disks for number, spec in enumerate(shapes.specs) if (disks := of(spec))}
