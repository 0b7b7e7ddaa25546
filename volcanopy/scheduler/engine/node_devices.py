"""The configured policies that assign devices and volumes to pods: the engine asks each of them directly."""

from dataclasses import dataclass

from volcanopy.scheduler.ledger.gpu_cards import GpuCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.roles import CardRanking, CardSharing, ClaimAssignment


@dataclass(frozen=True)
class NodeDevices:
    """The first configured policy of each kind, None without one."""

    sharing: CardSharing | None
    packing: CardRanking | None
    order: CardRanking | None  # As ``packing``, if its scores are not turned off.
    claims: ClaimAssignment | None

    @classmethod
    def of(cls, hooks: Hooks) -> "NodeDevices":
        """Return those of a session."""
        return cls(
            hooks.first_policy(CardSharing),  # type: ignore[type-abstract]
            hooks.first_policy(CardRanking),  # type: ignore[type-abstract]
            hooks.first_policy(CardRanking, "enableNodeOrder"),  # type: ignore[type-abstract]
            hooks.first_policy(ClaimAssignment),  # type: ignore[type-abstract]
        )

    def gpu_cards(self) -> GpuCards | None:
        """The GPU cards of all nodes; None without any."""
        return None if self.sharing is None else self.sharing.gpu_cards()

    def claim_preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """How preferred what the claims of a task get on each node is; None where they have no preference."""
        return None if self.claims is None else self.claims.claim_preferences(task, rows)

    def packs_resources(self) -> bool:
        """Whether a policy decides which resources of nodes are filled first."""
        return self.packing is not None and self.packing.packs_resources()
