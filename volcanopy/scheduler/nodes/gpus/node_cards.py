"""The GPU cards that the nodes of a session share, as their annotations and allocatable amounts have them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.nodes.gpus import gpu_annotations
from volcanopy.scheduler.nodes.gpus.card_selection import CardTable, card_table
from volcanopy.scheduler.nodes.gpus.device_names import DeviceNames
from volcanopy.scheduler.nodes.gpus.instances import InstanceTable
from volcanopy.scheduler.nodes.gpus.mig_geometries import MigGeometries, mig_instances
from volcanopy.scheduler.nodes.traits.trait_cache import outlasting

_MODES = (gpu_annotations.HAMI_CORE, gpu_annotations.MIG)
"""The modes of cards of which pods can get vGPUs."""


class NodeCards:
    """The cards of N nodes: those that their device plugins register as vGPUs, or else equal ones."""

    def __init__(
        self,
        snapshot: Snapshot,
        named: DeviceNames,
        mode: str,
        geometries: tuple[MigGeometries, ...],
        memory_factor: int,
    ) -> None:
        """``mode`` is that of the plugin: ``memory``, ``number`` or ``vgpu``."""
        self._snapshot, self._named, self._mode = snapshot, named, mode
        self._geometries, self._memory_factor = geometries, memory_factor

    def in_mode(self, requested: str) -> Mask:
        """(N,): the nodes whose cards are in the requested mode, or in any known one without a request."""
        known = self._in_mode.get(requested)
        return np.zeros(len(self._registers), dtype=np.bool_) if known is None else known

    @cached_property
    def _in_mode(self) -> dict[str, Mask]:
        modes = [node.mode for node in self._registers]
        known = {mode: np.array([each == mode for each in modes], dtype=np.bool_) for mode in _MODES}
        return known | {"": np.logical_or.reduce(list(known.values()))}

    @cached_property
    def readable(self) -> Mask:
        """(N,): the nodes whose cards can be read."""
        return np.array([node.readable for node in self._registers], dtype=np.bool_)

    @cached_property
    def undivided(self) -> Mask:
        """(N,): the nodes with a card in MIG mode whose geometries are not known."""
        unknown = self.table.instances.model == len(self._geometries) + 1
        mask: Mask = np.isin(np.arange(len(self._registers)), self.table.node[unknown])
        return mask

    @cached_property
    def table(self) -> CardTable:
        """The cards of all nodes, in one table until they change."""
        offered = tuple(node.cards for node in self._registers)
        in_mig_mode = tuple(node.mode == gpu_annotations.MIG for node in self._registers)
        key = (offered, in_mig_mode, self._geometries, self._memory_factor)

        def instances(types: Sequence[str], nodes: Rows) -> InstanceTable:
            return mig_instances(
                self._geometries, types, [in_mig_mode[row] for row in nodes.tolist()], self._memory_factor
            )

        traits = self._snapshot.nodes.traits
        return outlasting(traits, f"cards: {self._mode}", key, lambda: card_table(offered, instances))

    @cached_property
    def _registers(self) -> tuple[gpu_annotations.VgpuRegister, ...]:
        snapshot, named = self._snapshot, self._named
        notes = [node.metadata.annotations for node in snapshot.nodes.traits.objects]
        if self._mode == "vgpu":
            return tuple(
                gpu_annotations.parse_register(
                    annotations.get(named.registered, ""), annotations.get(named.handshake, "")
                )
                for annotations in notes
            )
        offers = [
            snapshot.nodes.allocatable[name].tolist() if name in snapshot.axis.index else [0] * len(notes)
            for name in (named.gpu_memory, named.gpu_number)
        ]
        return tuple(
            gpu_annotations.VgpuRegister(
                gpu_annotations.shared_cards(memory, number, annotations.get(named.unhealthy, ""))
            )
            for annotations, memory, number in zip(notes, *offers, strict=True)
        )
