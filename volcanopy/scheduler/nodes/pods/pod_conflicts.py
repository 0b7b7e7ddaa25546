"""Filters of nodes with conflicting pods: equal host ports, and disks without a claim that one of the pods writes."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import ShapeTable
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes

Port = tuple[str, int, str]
"""Protocol, number, address."""
Disk = tuple[str, frozenset[str], bool]
"""The kind of disk, its names (a common name means the same disk), and whether it is mounted read-only."""
ANY_ADDRESS = "0.0.0.0"
T = TypeVar("T", Port, Disk)


def ports_in_use(
    shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts
) -> Callable[[Rows], Mask] | None:
    """Return the filter of node rows on which a host port of the shape is in use; None for a shape without host ports."""
    return _conflicts("host ports", _ports, _same_port, shape, shapes, traits, pod_counts)


def disks_in_use(
    shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts
) -> Callable[[Rows], Mask] | None:
    """Return the filter of node rows on which a disk of the shape is in use; None for a shape without such disks."""
    return _conflicts("disks", _disks, _same_disk, shape, shapes, traits, pod_counts)


def _conflicts(
    kind: str,
    read: Callable[[core.PodSpec], Iterator[T]],
    conflict: Callable[[T, T], bool],
    shape: int,
    shapes: ShapeTable,
    traits: NodeTraits,
    pod_counts: PodCounts,
) -> Callable[[Rows], Mask] | None:
    def by_shape() -> dict[int, frozenset[T]]:
        return {number: used for number, spec in enumerate(shapes.specs) if (used := frozenset(read(spec)))}

    known = cached_by_shapes(traits, kind, shapes, by_shape)
    own = known.get(shape)
    if own is None:
        return None

    def values() -> Mask:
        conflicting = np.zeros(len(shapes.specs), dtype=np.bool_)
        conflicting[[n for n, others in known.items() if any(conflict(a, b) for a in own for b in others)]] = True
        return conflicting[pod_counts.snapshot.tasks.shape]

    tally = pod_counts.tally((kind, own), values, terminating=True)
    return lambda rows: tally.counts[rows] > 0


def _ports(spec: core.PodSpec) -> Iterator[Port]:
    for container in (*spec.init_containers, *spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS


def _same_port(a: Port, b: Port) -> bool:
    return a[:2] == b[:2] and (a[2] == b[2] or ANY_ADDRESS in {a[2], b[2]})


def _disks(spec: core.PodSpec) -> Iterator[Disk]:
    for volume in spec.volumes:
        if volume.gce_persistent_disk is not None:
            disk = volume.gce_persistent_disk
            yield "gce", frozenset({str(disk.get("pdName"))}), bool(disk.get("readOnly"))
        if volume.aws_elastic_block_store is not None:
            yield "aws", frozenset({str(volume.aws_elastic_block_store.get("volumeID"))}), False
        if volume.iscsi is not None:
            yield "iscsi", frozenset({str(volume.iscsi.get("iqn"))}), bool(volume.iscsi.get("readOnly"))
        if volume.rbd is not None:
            yield "rbd", frozenset(_images(volume.rbd)), bool(volume.rbd.get("readOnly"))


def _images(rbd: dict[str, Any]) -> Iterator[str]:
    """Yield the names of an RBD image: one per monitor, with pool and image."""
    for monitor in rbd.get("monitors") or ():
        yield f"{monitor}|{rbd.get('pool') or 'rbd'}|{rbd.get('image')}"


def _same_disk(a: Disk, b: Disk) -> bool:
    return a[0] == b[0] and bool(a[1] & b[1]) and not (a[2] and b[2])
