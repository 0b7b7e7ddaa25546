"""One kind of devices in a session: what the policy ``deviceshare`` asks of each kind, and what most kinds have in common.

A kind states the cards of nodes, the requests of pods and the annotations. Which cards a pod gets, and on which nodes there are
enough of them, follows from that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcanopy.api.builtin.gpu_annotations import Card, CardShare
from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.nodes.assignments import NodeAssignments, pending_tasks
from volcanopy.scheduler.nodes.traits.trait_cache import outlasting
from volcanopy.scheduler.policy.plugin import NodeRejection
from volcanopy_policies.devices.cards.card_selection import CardChoice, CardCriteria, CardOrder, CardTable, card_table
from volcanopy_policies.devices.cards.card_usage import AssignedCards, CardUsage, SessionCards

UNREADABLE = "node(s) had an annotation {} that cannot be read"

Shares = tuple[tuple[CardShare, ...], tuple[int, ...]]
"""The shares of a pod in cards, and the numbers of the exclusive rules that match it."""
_ORDERS = {"binpack": CardOrder.FULLEST, "spread": CardOrder.EMPTIEST}


class DeviceKind(ABC):
    """The devices of one kind. Nothing but ``requested`` is asked about a task that requests none."""

    compares_nodes: ClassVar[bool] = False
    """Whether the score of a node depends on the others."""
    unfit: ClassVar[str]
    """Why a node is rejected where the pod would not fit without other pods."""
    busy: ClassVar[str]
    """Why a node is rejected where it would."""
    lock: str = ""
    """The annotation by which a node is locked while a pod with such devices is bound to it; empty if it is not."""
    rules: tuple[Any, ...] = ()
    """The rules by which pods do not share cards."""

    def __init__(self, cluster: Cluster, key: str, policy: str, weight: int) -> None:
        """``key`` distinguishes what is kept across sessions; ``policy`` is `binpack`, `spread` or empty."""
        self.cluster, self._key, self._weight = cluster, key, weight
        self._order = _ORDERS.get(policy, CardOrder.FIRST)

    # What a kind states

    shapes: Collection[int]
    """The shapes of the tasks that request such devices."""

    @abstractmethod
    def cache_key(self, task: TaskView) -> Hashable:
        """Return what the answers for a task depend on besides its shape."""

    @abstractmethod
    def _offered(self) -> Sequence[Sequence[Card]]:
        """The cards of each node, in the order of the nodes."""

    @abstractmethod
    def _shares(self, pod: AssignedPod) -> Shares:
        """The shares of a pod on a node."""

    @abstractmethod
    def _annotations(self, task: TaskView, node: int, assigned: AssignedCards) -> dict[str, str]:
        """The cards of a pod on its node, in the form that the device plugin reads."""

    def _criteria(self, task: TaskView) -> CardCriteria:
        """What a task requests; it and the next are asked by the answers below alone."""
        raise NotImplementedError

    def _reasons(self, task: TaskView, rows: Rows, possible: Mask) -> Iterable[tuple[str, Mask]]:
        """Why the task can never run on some of these nodes, the first reasons first.

        ``possible``: where it would fit without other pods.
        """
        raise NotImplementedError

    # What follows

    def requested(self, task: TaskView) -> bool:
        """Return whether the task requests such devices."""
        return task.shape in self.shapes

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """Return what the answers for a task on a node depend on besides its columns; None if that is not known."""
        return None

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Return the nodes without enough cards for the task, container by container."""
        self._assignments.sync()
        rows, criteria = nodes.rows, self._criteria(task)
        rejected = ~self._cards.fits(rows, criteria, pipelined=False)
        if not rejected.any():
            return []
        bad = rows[rejected]
        possible = self._cards.fits_empty_nodes(bad, criteria)
        later = self._cards.fits(bad, criteria, pipelined=True)
        reasons = [
            *self._reasons(task, bad, possible),
            (self.unfit, ~possible),
            (self.busy, ~later),
            (self.busy, later),
        ]
        unexplained = np.ones(len(bad), dtype=np.bool_)
        rejections = []
        for number, (reason, mask) in enumerate(reasons, start=1):
            mask_of_all = np.zeros(len(rows), dtype=np.bool_)
            mask_of_all[rejected] = mask & unexplained
            unexplained &= ~mask
            if mask_of_all.any():
                final, temporary = number < len(reasons) - 1, number == len(reasons)
                rejections.append(NodeRejection(reason, mask_of_all, final, temporary))
        return rejections

    def score(self, task: TaskView, nodes: NodesView) -> Floats:
        """Return the mean over the cards that the pod would get: how full they will be (binpack), or whether they are empty."""
        if not self._weight:
            return np.zeros(len(nodes), dtype=np.float64)
        self._assignments.sync()
        criteria = self._criteria(task)
        now = self._cards.evaluate(nodes.rows, criteria, pipelined=False)
        scores = self._mean_score(now, criteria)
        if not now.fits.all():
            later = self._cards.evaluate(nodes.rows[~now.fits], criteria, pipelined=True)
            scores[~now.fits] = self._mean_score(later, criteria)
        return self._weight * scores

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """Return the annotations with the cards of a task that is bound to a node."""
        self._assignments.sync()
        assigned = self._assignments.get(task.representative.row)
        return {} if assigned is None else self._annotations(task, node, assigned)

    def _mean_score(self, choice: CardChoice, criteria: CardCriteria) -> Floats:
        scores: Floats = np.rint(choice.score) / sum(each.number for each in criteria.requests if each is not None)
        return scores

    @cached_property
    def _table(self) -> CardTable:
        """The cards of all nodes, in one table until they change."""
        offered = self._offered()
        return outlasting(self.cluster.traits, f"cards: {self._key}", offered, lambda: card_table(offered))

    @cached_property
    def _usage(self) -> CardUsage:
        """What pods take of the cards, kept across sessions."""
        cards, key = self._table, f"cards taken: {self._key}"
        usage = outlasting(self.cluster.traits, key, (cards, self.rules), lambda: CardUsage(cards, len(self.rules)))
        usage.sync(self.cluster, self._shares)
        return usage

    @cached_property
    def _cards(self) -> SessionCards:
        return SessionCards(
            self.cluster, self._table, self._usage, self._order, lambda row: self._criteria(self.cluster.task(row))
        )

    @cached_property
    def _assignments(self) -> NodeAssignments[AssignedCards]:
        return NodeAssignments(self.cluster, self._waiting(), self._cards)

    def _waiting(self) -> Rows:
        """The pending tasks that request such devices."""
        return pending_tasks(self.cluster.snapshot, self.shapes)
