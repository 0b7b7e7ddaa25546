"""Accessibility of volumes: the nodes from which they can be used, and the nodes for which they can be provisioned."""

from collections.abc import Iterable

import msgspec
import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.builtin import storage
from volcanopy.scheduler.model.claim_tables import ClaimTables
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Mask, Rows, frozen
from volcanopy.scheduler.nodes.traits import node_affinity
from volcanopy.scheduler.nodes.traits.trait_cache import cached
from volcanopy.scheduler.nodes.volumes import volume_matching
from volcanopy.scheduler.nodes.volumes.volume_matching import requested_size

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_CACHE_SIZE = 65_536


def accessible_mask(volume: storage.PersistentVolume, traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes from which a volume is accessible."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return np.ones(len(traits.objects), dtype=np.bool_)
    terms = affinity.required.node_selector_terms
    rows: Rows = cached(
        traits,
        "accessible nodes",
        _ENCODE(terms),
        lambda: np.flatnonzero(node_affinity.any_term(terms, traits)),
        _CACHE_SIZE,
    )
    mask = np.zeros(len(traits.objects), dtype=np.bool_)
    mask[rows] = True
    return mask


def outside_zone(volume: storage.PersistentVolume, traits: NodeTraits) -> Mask | None:
    """Return the (N,) mask of the nodes in another zone or region than the volume's labels; None without such labels.

    A node without any zone or region label is in every zone.
    """
    labels = {key: value for key, value in volume.metadata.labels.items() if key in ZONES}
    if not labels:
        return None

    def make() -> Mask:
        unlabelled = np.ones(len(traits.objects), dtype=np.bool_)
        for key in ZONES:
            unlabelled &= traits.label(key)[0] < 0
        zones = (
            core.Requirement(key=key, operator="In", values=tuple(value.split("__"))) for key, value in labels.items()
        )
        return frozen(~node_affinity.all_of(zones, traits) & ~unlabelled)

    return cached(traits, "volume zones", _ENCODE(labels), make)


def allowed_mask(storage_class: storage.StorageClass, traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes in the allowed topologies of a class."""
    if not storage_class.allowed_topologies:
        return np.ones(len(traits.objects), dtype=np.bool_)
    terms = tuple(
        core.NodeSelectorTerm(
            match_expressions=tuple(
                core.Requirement(key=label.key, operator="In", values=label.values)
                for label in term.match_label_expressions
            )
        )
        for term in storage_class.allowed_topologies
    )
    return cached(traits, "allowed topologies", _ENCODE(terms), lambda: node_affinity.any_term(terms, traits))


def with_capacity(
    claim: storage.PersistentVolumeClaim,
    storage_class: storage.StorageClass,
    claim_tables: ClaimTables,
    traits: NodeTraits,
) -> Mask | None:
    """Return the (N,) mask of the nodes with storage capacity for the claim; None if the driver does not report capacity."""
    driver = claim_tables.csi_drivers.get(storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    size = requested_size(claim)
    mask = np.zeros(len(traits.objects), dtype=np.bool_)
    for _, capacity in sorted(claim_tables.capacities.items()):
        topology = capacity.node_topology
        if (
            capacity.storage_class_name == storage_class.metadata.name
            and _bytes(capacity) >= size
            and topology is not None
        ):
            mask |= _selected(topology, traits)
    return mask


def _bytes(capacity: storage.CSIStorageCapacity) -> int:
    size = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return -1 if size is None else quantity.amount("storage", size)


def _selected(selector: core.LabelSelector, traits: NodeTraits) -> Mask:
    labels: Iterable[core.Requirement] = (
        core.Requirement(key=key, operator="In", values=(value,)) for key, value in selector.match_labels.items()
    )
    return node_affinity.all_of((*labels, *selector.match_expressions), traits)


class AvailableVolumes:
    """P available volumes of a storage class, the best first, as columns."""

    def __init__(self, volumes: tuple[storage.PersistentVolume, ...], traits: NodeTraits) -> None:
        self.names = [volume.metadata.name for volume in volumes]
        self.accessible: Mask = np.zeros((len(volumes), len(traits.objects)), dtype=np.bool_)
        """(P, N): the nodes from which each is accessible."""
        for index, volume in enumerate(volumes):
            self.accessible[index] = accessible_mask(volume, traits)
        self._volumes = volumes
        self._indices = {name: index for index, name in enumerate(self.names)}
        self._masks: dict[bytes, Mask] = {}

    def suitable(self, claim: storage.PersistentVolumeClaim, taken: Iterable[str]) -> Rows:
        """Return the indices of the volumes that suit a claim and are not in ``taken``."""
        spec = claim.spec
        key = _ENCODE(
            (spec.resources, spec.access_modes, spec.selector, spec.volume_mode, spec.volume_attributes_class_name)
        )
        mask = self._masks.get(key)
        if mask is None:
            verdicts = (volume_matching.suits(volume, claim) for volume in self._volumes)
            mask = self._masks[key] = np.fromiter(verdicts, np.bool_, len(self._volumes))
        excluded = [self._indices[name] for name in taken if name in self._indices]
        if excluded:
            mask = mask.copy()
            mask[excluded] = False
        return np.flatnonzero(mask)
