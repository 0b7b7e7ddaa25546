"""Users of volume claims, and the number of attached volumes per driver and node, kept current during a session."""

from collections.abc import Mapping

import numpy as np

from volcanopy.api.builtin import pod_claims, storage
from volcanopy.scheduler.cache.claim_cache import attachable_volume
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, ShapeTable
from volcanopy.scheduler.model.task_status import ON_NODE, Status
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes


class VolumeUsers:
    """The pods that use claims in one session."""

    def __init__(self, cluster: Cluster, claiming: Mask) -> None:
        """``claiming``: (T,) the tasks with claims."""
        self._cluster = cluster
        self._ledger = cluster.ledger
        self._claiming = claiming
        self._counts: dict[str, tuple[int, Ints, Ints]] = {}

    def of(self, claim: str) -> tuple[Rows, Rows]:
        """Return the tasks with a node that use a named claim: the staying ones and the terminating ones."""
        snapshot = self._cluster.snapshot
        index = cached_by_shapes(self._cluster.traits, "claims", snapshot.shapes, lambda: _by_claim(snapshot.shapes))
        shapes = index.get(claim, ())
        rows = np.flatnonzero(np.isin(snapshot.tasks.shape, shapes))
        status = self._ledger.status[rows]
        on_node = (self._ledger.node[rows] != NONE) & (ON_NODE[status] | (status == Status.PIPELINED))
        terminating = status == Status.RELEASING
        return rows[on_node & ~terminating], rows[on_node & terminating]

    def nodes_of(self, claim: str) -> tuple[set[int], set[int]]:
        """Return the nodes where a named claim is in use, now and without terminating tasks."""
        staying, terminating = (set(self._ledger.node[rows].tolist()) for rows in self.of(claim))
        return staying | terminating, staying

    def counts(self, driver: str) -> tuple[Ints, Ints]:
        """Return (N,) the volumes of a driver in use on each node, now and without terminating tasks."""
        known = self._counts.get(driver)
        changes = self._ledger.changes
        if known is None:
            attached = self._cluster.snapshot.claim_tables.attached.get(driver, {})
            names = self._cluster.snapshot.nodes.names
            now = np.fromiter((attached.get(name, 0) for name in names), np.int64, len(names))
            later = now.copy()
            seen = 0
        else:
            seen, now, later = known
        for node in {int(node) for node in self._ledger.touched_since(seen)}:
            now[node], later[node] = self._count_on(node, driver)
        self._counts[driver] = (changes, now, later)
        return now, later

    def _count_on(self, node: int, driver: str) -> tuple[int, int]:
        tasks = self._cluster.snapshot.tasks
        attached: set[str] = set()
        staying: set[str] = set()
        for row in np.flatnonzero((self._ledger.node == node) & self._claiming).tolist():
            status = self._ledger.status[row]
            if not ON_NODE[status] and status != Status.PIPELINED:
                continue
            for requested in pod_claims.volumes(tasks.pods[row]):
                volume = self.volume(requested.key)
                if volume is not None and volume[0] == driver:
                    attached.add(volume[1])
                    if status != Status.RELEASING:
                        staying.add(volume[1])
        return len(attached), len(staying)

    def volume(self, key: str) -> tuple[str, str] | None:
        """Return driver and handle of the attachable volume of a claim; None for volumes without an attach limit."""
        claim_tables = self._cluster.snapshot.claim_tables
        claim = claim_tables.claims.get(key)
        if claim is None:
            return None
        storage_class = claim_tables.classes.get(claim.spec.storage_class_name)
        return attachable_volume(claim, claim_tables.volumes.get(claim.spec.volume_name), storage_class)

    @once
    def limit(self, driver: str) -> Ints | None:
        """Return (N,) the maximum number of volumes of a driver per node; None if no node reports one."""
        nodes: Mapping[str, storage.CSINode] = self._cluster.snapshot.claim_tables.csi_nodes
        names = self._cluster.snapshot.nodes.names
        limits = np.fromiter((_attach_limit(nodes.get(name), driver) for name in names), np.int64, len(names))
        return limits if (limits < _UNLIMITED).any() else None


_UNLIMITED = 2**31


def _attach_limit(node: storage.CSINode | None, driver: str) -> int:
    for installed in node.spec.drivers if node is not None else ():
        if installed.name == driver and installed.allocatable is not None and installed.allocatable.count is not None:
            return installed.allocatable.count
    return _UNLIMITED


def _by_claim(shapes: ShapeTable) -> dict[str, tuple[int, ...]]:
    """Return the shapes that use each named claim."""
    by_claim: dict[str, tuple[int, ...]] = {}
    for number in sorted(shapes.claiming):
        for volume in shapes.specs[number].volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{shapes.namespaces[number]}/{volume.persistent_volume_claim.claim_name}"
                by_claim[key] = (*by_claim.get(key, ()), number)
    return by_claim
