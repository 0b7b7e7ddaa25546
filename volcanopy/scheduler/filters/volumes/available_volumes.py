"""The open volumes of one class, as columns: which suit a claim, and from where each can be reached."""

from collections.abc import Iterable

import msgspec
import numpy as np

from volcanopy.api import storage
from volcanopy.scheduler.filters.volumes import volume_matching, volume_topology
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NodeTraits

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


class AvailableVolumes:
    """P volumes that claims of a class may get, the best first."""

    def __init__(self, volumes: tuple[storage.PersistentVolume, ...], traits: NodeTraits) -> None:
        self.names = [volume.metadata.name for volume in volumes]
        self.reach: Mask = np.zeros((len(volumes), len(traits.objects)), dtype=np.bool_)
        """(P, N): from which nodes each can be reached."""
        for place, volume in enumerate(volumes):
            there = volume_topology.of_volume(volume, traits)
            self.reach[place, slice(None) if there is None else there] = True
        self._volumes = volumes
        self._places = {name: place for place, name in enumerate(self.names)}
        self._suits: dict[bytes, Mask] = {}

    def open(self, claim: storage.PersistentVolumeClaim, taken: Iterable[str]) -> Rows:
        """The places of those that suit a claim and are not taken."""
        spec = claim.spec
        key = _ENCODE(
            (spec.resources, spec.access_modes, spec.selector, spec.volume_mode, spec.volume_attributes_class_name)
        )
        suits = self._suits.get(key)
        if suits is None:
            verdicts = (volume_matching.suits(volume, claim) for volume in self._volumes)
            suits = self._suits[key] = np.fromiter(verdicts, np.bool_, len(self._volumes))
        gone = [self._places[name] for name in taken if name in self._places]
        if gone:
            suits = suits.copy()
            suits[gone] = False
        return np.flatnonzero(suits)
