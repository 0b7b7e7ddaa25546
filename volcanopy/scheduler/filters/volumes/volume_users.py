"""Who uses a claim on a volume, and how many volumes of a driver are in use on each node, as the session moves pods."""

from collections.abc import Mapping

import numpy as np

from volcanopy.api import storage
from volcanopy.scheduler.cache.claim_cache import volume_behind
from volcanopy.scheduler.filters.traits.trait_cache import kept_of_shapes
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, ShapeTable
from volcanopy.scheduler.model.task_status import ON_NODE, Status


class Users:
    """The pods behind claims in one session."""

    def __init__(self, cluster: Cluster, claiming: Mask) -> None:
        """``claiming``: (T,) the tasks behind which there are claims."""
        self._cluster = cluster
        self._ledger = cluster.ledger
        self._claiming = claiming
        self._counts: dict[str, tuple[int, Ints, Ints]] = {}
        self._limits: dict[str, Ints] = {}

    def of(self, claim: str) -> tuple[Rows, Rows]:
        """The tasks with a node that use a named claim: those that stay, and those that are leaving."""
        snapshot = self._cluster.snapshot
        index = kept_of_shapes(self._cluster.traits, "claims", snapshot.shapes, lambda: _by_claim(snapshot.shapes))
        shapes = index.get(claim, ())
        rows = np.flatnonzero(np.isin(snapshot.tasks.shape, shapes))
        status = self._ledger.status[rows]
        there = (self._ledger.node[rows] != NONE) & (ON_NODE[status] | (status == Status.PIPELINED))
        leaves = status == Status.RELEASING
        return rows[there & ~leaves], rows[there & leaves]

    def nodes_of(self, claim: str) -> tuple[set[int], set[int]]:
        """The nodes where a named claim is in use now, and where it still is once those that leave have left."""
        stay, leave = self.of(claim)
        node = self._ledger.node
        staying = set(node[stay].tolist())
        return staying | set(node[leave].tolist()), staying

    def counts(self, driver: str) -> tuple[Ints, Ints]:
        """(N,): the volumes of a driver in use on each node now, and once those that leave have left."""
        known = self._counts.get(driver)
        changes = self._ledger.changes
        if known is None:
            there = self._cluster.snapshot.claim_tables.attached.get(driver, {})
            names = self._cluster.snapshot.nodes.names
            now = np.fromiter((there.get(name, 0) for name in names), np.int64, len(names))
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
        there: set[str] = set()
        staying: set[str] = set()
        for row in np.flatnonzero((self._ledger.node == node) & self._claiming).tolist():
            status = self._ledger.status[row]
            if not ON_NODE[status] and status != Status.PIPELINED:
                continue
            for requested in pod_claims.volumes(tasks.pods[row]):
                volume = self.volume(requested.key)
                if volume is not None and volume[0] == driver:
                    there.add(volume[1])
                    if status != Status.RELEASING:
                        staying.add(volume[1])
        return len(there), len(staying)

    def volume(self, key: str) -> tuple[str, str] | None:
        """The driver's volume behind a claim, None where nobody counts it."""
        claim_tables = self._cluster.snapshot.claim_tables
        claim = claim_tables.claims.get(key)
        if claim is None:
            return None
        made_by = claim_tables.classes.get(claim.spec.storage_class_name)
        return volume_behind(claim, claim_tables.volumes.get(claim.spec.volume_name), made_by)

    def limit(self, driver: str) -> Ints | None:
        """(N,): how many volumes of a driver each node bears; None if no node says so."""
        if driver not in self._limits:
            nodes: Mapping[str, storage.CSINode] = self._cluster.snapshot.claim_tables.csi_nodes
            names = self._cluster.snapshot.nodes.names
            self._limits[driver] = np.fromiter(
                (_bears(nodes.get(name), driver) for name in names), np.int64, len(names)
            )
        found = self._limits[driver]
        return found if (found < _MANY).any() else None


_MANY = 2**31


def _bears(node: storage.CSINode | None, driver: str) -> int:
    for one in node.spec.drivers if node is not None else ():
        if one.name == driver and one.allocatable is not None and one.allocatable.count is not None:
            return one.allocatable.count
    return _MANY


def _by_claim(shapes: ShapeTable) -> dict[str, tuple[int, ...]]:
    """The shapes that use each named claim."""
    found: dict[str, tuple[int, ...]] = {}
    for number in sorted(shapes.claiming):
        for volume in shapes.specs[number].volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{shapes.namespaces[number]}/{volume.persistent_volume_claim.claim_name}"
                found[key] = (*found.get(key, ()), number)
    return found
