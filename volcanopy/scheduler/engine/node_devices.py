"""The configured policies that assign devices and volumes to pods: the engine asks each of them directly."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

from volcanopy.scheduler.ledger.gpu_cards import Candidates, GpuCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.dispatch import Installed

T = TypeVar("T")


class CardSharing(ABC):
    """Assigns GPU cards to pods."""

    @abstractmethod
    def gpu_cards(self) -> GpuCards | None:
        """The GPU cards of all nodes."""

    @abstractmethod
    def bind_locks(self, task: TaskView) -> tuple[str, ...]:
        """Annotations by which a node is locked while the pod is bound to it; its device plugin removes them."""


class CardRanking(ABC):
    """Decides which GPU cards are used first."""

    @abstractmethod
    def packs_resources(self) -> bool:
        """Whether it decides which resources of nodes are filled first: other scores by amounts do not count."""

    @abstractmethod
    def card_order(self, task: TaskView, candidates: Candidates) -> Floats:
        """How well each of K GPU cards suits the task, among the cards of its node: larger is better."""

    @abstractmethod
    def node_state(self, node: int) -> Hashable:
        """What ``card_order`` depends on besides the task and the use of the node's cards: equal for nodes with equal answers."""


class ClaimAssignment(ABC):
    """Assigns volumes and devices to the claims of pods."""

    @abstractmethod
    def bind_claims(self, task: TaskView) -> Claims | None:
        """What must be allocated to the claims of the pod on volumes and devices before it is bound to its node."""


@dataclass(frozen=True)
class NodeDevices:
    """The first configured policy of each kind, None without one."""

    sharing: CardSharing | None
    packing: CardRanking | None
    order: CardRanking | None
    """As ``packing``, if its scores are not turned off."""
    claims: ClaimAssignment | None

    @classmethod
    def of(cls, tiers: Installed) -> "NodeDevices":
        """Return those of a session."""
        return cls(
            _first(tiers, CardSharing),  # type: ignore[type-abstract]
            _first(tiers, CardRanking),  # type: ignore[type-abstract]
            _first(tiers, CardRanking, "enableNodeOrder"),  # type: ignore[type-abstract]
            _first(tiers, ClaimAssignment),  # type: ignore[type-abstract]
        )

    def gpu_cards(self) -> GpuCards | None:
        """The GPU cards of all nodes; None without any."""
        return None if self.sharing is None else self.sharing.gpu_cards()

    def packs_resources(self) -> bool:
        """Whether a policy decides which resources of nodes are filled first."""
        return self.packing is not None and self.packing.packs_resources()


def _first(tiers: Installed, kind: type[T], switch: str = "") -> T | None:
    return next(
        (plugin for tier in tiers for plugin, off in tier if isinstance(plugin, kind) and switch not in off), None
    )
