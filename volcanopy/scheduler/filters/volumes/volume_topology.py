"""From which nodes volumes can be reached, and for which nodes new ones can be made."""

from collections.abc import Iterable

import msgspec
import numpy as np

from volcanopy.api import core, quantity, storage
from volcanopy.scheduler.filters.traits import node_affinity
from volcanopy.scheduler.filters.traits.trait_cache import kept
from volcanopy.scheduler.filters.volumes.volume_matching import asked_size
from volcanopy.scheduler.model.claim_tables import ClaimTables
from volcanopy.scheduler.model.resources import Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import NodeTraits

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_REMEMBERED = 65_536


def of_volume(volume: storage.PersistentVolume, traits: NodeTraits) -> Rows | None:
    """The nodes from which a volume can be reached; None for all."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    known: dict[bytes, Rows] = traits.memo.setdefault("reach of volumes", {})
    key = _ENCODE(affinity.required)
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = np.flatnonzero(node_affinity.any_term(affinity.required.node_selector_terms, traits))
    return known[key]


def mask_of(volume: storage.PersistentVolume, traits: NodeTraits) -> Mask:
    """(N,): the nodes from which a volume can be reached."""
    rows = of_volume(volume, traits)
    if rows is None:
        return np.ones(len(traits.objects), dtype=np.bool_)
    mask = np.zeros(len(traits.objects), dtype=np.bool_)
    mask[rows] = True
    return mask


def outside_zone(volume: storage.PersistentVolume, traits: NodeTraits) -> Mask | None:
    """(N,): the nodes in another zone or region than the volume's labels name; None if they name none.

    A node that says nothing at all about its zone or region is in every one.
    """
    text = {key: value for key, value in volume.metadata.labels.items() if key in ZONES}
    if not text:
        return None

    def make() -> Mask:
        silent = np.ones(len(traits.objects), dtype=np.bool_)
        for key in ZONES:
            silent &= traits.label(key)[0] < 0
        fits = np.ones(len(traits.objects), dtype=np.bool_)
        for key, value in text.items():
            wanted = core.Requirement(key=key, operator="In", values=tuple(value.split("__")))
            fits &= node_affinity.any_term((core.NodeSelectorTerm(match_expressions=(wanted,)),), traits)
        mask = ~fits & ~silent
        frozen(mask)
        return mask

    return kept(traits, "volume zones", _ENCODE(text), make)


def of_class(made_by: storage.StorageClass, traits: NodeTraits) -> Mask:
    """(N,): the nodes in the topologies that a class allows."""
    if not made_by.allowed_topologies:
        return np.ones(len(traits.objects), dtype=np.bool_)
    terms = tuple(
        core.NodeSelectorTerm(
            match_expressions=tuple(
                core.Requirement(key=one.key, operator="In", values=one.values) for one in term.match_label_expressions
            )
        )
        for term in made_by.allowed_topologies
    )
    return kept(traits, "allowed topologies", _ENCODE(terms), lambda: node_affinity.any_term(terms, traits))


def with_capacity(
    claim: storage.PersistentVolumeClaim, made_by: storage.StorageClass, claim_tables: ClaimTables, traits: NodeTraits
) -> Mask | None:
    """(N,): the nodes for which the driver has room for the claim's volume; None where it does not tell."""
    driver = claim_tables.csi_drivers.get(made_by.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    size = asked_size(claim)
    mask = np.zeros(len(traits.objects), dtype=np.bool_)
    for _, one in sorted(claim_tables.capacities.items()):
        if one.storage_class_name == made_by.metadata.name and _room(one) >= size and one.node_topology is not None:
            mask |= _chosen(one.node_topology, traits)
    return mask


def _room(capacity: storage.CSIStorageCapacity) -> int:
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return -1 if text is None else quantity.amount("storage", text)


def _chosen(selector: core.LabelSelector, traits: NodeTraits) -> Mask:
    wanted: Iterable[core.Requirement] = (
        core.Requirement(key=key, operator="In", values=(value,)) for key, value in selector.match_labels.items()
    )
    expressions = (*wanted, *selector.match_expressions)
    if not expressions:
        return np.ones(len(traits.objects), dtype=np.bool_)
    return node_affinity.any_term((core.NodeSelectorTerm(match_expressions=expressions),), traits)
