"""The mix of pods that request GPUs: classes of equal pods with their part of all, and what of a node each could use.

A class requests units of one *kind*: cards of one sort of request (memory, cores, models), or an extended resource such as
``nvidia.com/gpu`` or a MIG profile, whose unit is a part of a GPU.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volcanopy.scheduler.ledger.gpu_cards import ALL_CORES
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask, Rows

GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""The extended resources whose unit is a GPU."""
MIG = "nvidia.com/mig-"  # The beginning of the names of MIG profiles.
_PROFILE = re.compile(r"([1-9])g\..*")
MIG_SLICES = 7  # The compute slices of a GPU in MIG mode.
MOST = 64  # The classes that are considered, the most frequent first.


def gpu_resources(axis: Axis, gpus: Sequence[str] = GPUS) -> dict[int, float]:
    """Return the positions of the extended resources that are GPUs or MIG slices, each with the part of a GPU of a unit."""
    parts = {}
    for position, name in enumerate(axis.names):
        slices = slices_of(name.removeprefix(MIG)) if name.startswith(MIG) else 0
        if name in gpus:
            parts[position] = 1.0
        elif slices:
            parts[position] = slices / MIG_SLICES
    return parts


def slices_of(profile: str) -> int:
    """Return the compute slices of a MIG profile such as ``3g.20gb``; 0 for another name."""
    form = _PROFILE.fullmatch(profile)
    return 0 if form is None else min(int(form[1]), MIG_SLICES)


@dataclass(frozen=True, eq=False)
class CardKind:
    """A sort of request for cards."""

    memory: Ints  # (C,): the memory of each card, UNLIMITED where it must not be used.
    cores: int


@dataclass(frozen=True, eq=False)
class PodClass:
    """Equal pods."""

    weight: float  # How many there are.
    cpu: int
    memory: int
    number: int  # The units of its kind that it requests.
    kind: CardKind | int  # Cards, or the position of an extended resource.
    gpus: float  # The requested GPUs in sum.
    nodes: Mask  # (N,): the nodes that labels and taints permit.


@dataclass(frozen=True, eq=False)
class Mix:
    """M classes as columns, and the P kinds of their requests: cards first, then extended resources."""

    weight: Floats  # (M,): the part of each class, in sum 1.
    number: Ints
    kind: Rows  # (M,): the row of its kind.
    cpu: Ints
    memory: Ints
    nodes: Mask  # (M, N).
    card_memory: Ints  # (P of cards, C).
    card_cores: Ints  # (P of cards, 1): at least 1, as no pod runs on a card without free cores.
    resources: Rows  # The positions of the extended resources.
    per_gpu: Floats  # (2,): the cpu and memory that pods request for a GPU, in the mean.

    @cached_property
    def everywhere(self) -> bool:
        """Whether every class is permitted on every node."""
        return bool(self.nodes.all())

    @classmethod
    def of(cls, classes: Iterable[PodClass], nodes: int, cards: int) -> "Mix | None":
        """The mix of the most frequent classes; None without any."""
        ordered = sorted(classes, key=lambda each: (-each.weight, each.gpus, each.cpu, each.memory, each.number))[:MOST]
        gpus = sum(each.weight * each.gpus for each in ordered)
        if not ordered or gpus <= 0:
            return None
        kinds: list[CardKind] = []
        for each in ordered:
            if isinstance(each.kind, CardKind) and each.kind not in kinds:
                kinds.append(each.kind)
        resources = sorted({each.kind for each in ordered if isinstance(each.kind, int)})
        rows = [
            kinds.index(each.kind) if isinstance(each.kind, CardKind) else len(kinds) + resources.index(each.kind)
            for each in ordered
        ]
        total = sum(each.weight for each in ordered)
        used = [sum(each.weight * each.cpu for each in ordered), sum(each.weight * each.memory for each in ordered)]
        return cls(
            weight=np.array([each.weight / total for each in ordered]),
            number=np.array([each.number for each in ordered], dtype=np.int64),
            kind=np.array(rows, dtype=np.intp),
            cpu=np.array([each.cpu for each in ordered], dtype=np.int64),
            memory=np.array([each.memory for each in ordered], dtype=np.int64),
            nodes=np.array([each.nodes for each in ordered], dtype=np.bool_).reshape(len(ordered), nodes),
            card_memory=np.array([kind.memory for kind in kinds], dtype=np.int64).reshape(len(kinds), cards),
            card_cores=np.array([[max(kind.cores, 1)] for kind in kinds], dtype=np.int64).reshape(-1, 1),
            resources=np.array(resources, dtype=np.intp),
            per_gpu=np.array(used, dtype=np.float64) / gpus,
        )

    def fits(self, cards: Rows, memory: Ints, cores: Ints) -> Mask:
        """(P of cards, K): which of these cards, with so much free, each kind can use."""
        return (memory >= self.card_memory[:, cards]) & (cores >= self.card_cores)

    def usable(self, units: Ints, gpus: Floats, cpu: Ints, memory: Ints, rows: Rows) -> Floats:
        """(S, N): the GPUs of nodes that the next pod of the mix could use, in expectation.

        ``units`` and ``gpus`` are (P, S, N), or (P, 1, N) if the tasks request no GPUs: the free units that each kind can use,
        and how many GPUs these are; cpu and memory (S, N) are free. A pod can use what is free of its kind if the node has
        enough of everything for it.
        """
        hosts = cpu >= self.cpu[:, None, None]
        hosts &= memory >= self.memory[:, None, None]
        hosts = hosts & (units[self.kind] >= self.number[:, None, None])
        if not self.everywhere:
            hosts &= self.nodes[:, None, rows]
        return np.einsum("m,msn,msn->sn", self.weight, hosts, gpus[self.kind])

    @cached_property
    def _requested_of_next(self) -> tuple[Rows, Floats]:
        """(K,), (K, 3, 1, 1): what is requested of ``per_gpu``; half, all and twice of it: it is not known which pods come."""
        counted = np.flatnonzero(self.per_gpu > 0)
        return counted, np.outer(self.per_gpu[counted], (0.5, 1.0, 2.0))[:, :, None, None]

    def stranded(self, gpus: Floats, amounts: Sequence[Ints]) -> Floats:
        """(S, N): the free GPUs that pods cannot use up because cpu or memory of the node end before, in expectation."""
        counted, requests = self._requested_of_next
        lacking = np.maximum(gpus - np.stack(amounts)[counted, None] / requests, 0.0)
        sums: Floats = lacking.sum(axis=(0, 1))
        return sums / 3


def free_part(memory: Ints, cores: Ints, whole: Ints) -> Floats:
    """(K,): the free part of cards, of memory or of cores, whichever is less."""
    return np.minimum(np.maximum(memory, 0) / np.maximum(whole, 1), np.maximum(cores, 0) / ALL_CORES)
