"""The roles that a policy can have: each is a base class with the methods that several policies answer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from typing import Any, ClassVar

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.ledger.gpu_cards import Candidates, GpuCards
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.queue_shares import Shares
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.policy import combine
from volcanopy.scheduler.policy.plugin import Key, NodeRejection, Rejection, Vote, hook


class Purpose(Enum):
    """What pods are evicted for; the value is the switch of the configuration file that turns a policy off for it."""

    PREEMPT = "enablePreemptable"
    """For a task, of jobs of its queue."""
    RECLAIM = "enableReclaimable"
    """For a task, of jobs of other queues."""
    GANG_PREEMPT = "gangpreempt"
    """For a gang, bundles of pods of jobs of its queue; it has no switch."""
    GANG_RECLAIM = "gangreclaim"
    """For a gang, bundles of pods of jobs of other queues; it has no switch."""
    SHUFFLE = "enabledVictim"
    """For no task: to move pods, to end them, or to drain a queue."""

    @property
    def is_between_queues(self) -> bool:
        """Whether the pods are of other queues than the preemptor."""
        return self in (Purpose.RECLAIM, Purpose.GANG_RECLAIM)

    @property
    def is_for_gang(self) -> bool:
        """Whether bundles of pods are evicted for a whole gang."""
        return self in (Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM)


class Order:
    """In which order queues, jobs and tasks are considered: by keys, the smallest first."""

    @hook(combine.lexicographic, "enableJobOrder")
    def jobs(self, jobs: Rows) -> Ints | Floats | Mask:
        """Sort keys of the (M,) job rows: the first job of a queue is considered next."""
        raise NotImplementedError

    @hook(combine.lexicographic, "enableTaskOrder")
    def tasks(self, tasks: Rows) -> Ints | Floats:
        """Sort keys of the (M,) task rows within a job."""
        raise NotImplementedError

    @hook(combine.lexicographic, "enableQueueOrder")
    def queue(self, queue: QueueView) -> Key:
        """Sort key of a queue, by the queue and its ancestors only: the first queue is considered next."""
        raise NotImplementedError


class Moment(Enum):
    """When a gate is asked about a job, with the switch of the configuration file that turns its answer off."""

    ENQUEUE = "enqueue", "enableJobEnqueued"
    """Whether the job may change from Pending to Inqueue, so that its pods are created."""
    ENQUEUED = "enqueued", "enableJobEnqueued"
    """The job has changed to Inqueue: the verdict has no effect."""
    RESERVE = "reserve", "enableJobEnqueued"
    """Whether resources are reserved for the job at once: only if a gate permits it."""
    READY = "ready", "enableJobReady"
    """Whether the job can start: its placements may be bound."""
    PIPELINED = "pipelined", "enableJobPipelined"
    """Whether the job can start once the evicted pods have terminated."""

    __hash__ = object.__hash__  # an enumeration hashes the names of its members in Python, once for each job

    @property
    def switch(self) -> str:
        """The switch that turns off the answers of a plugin."""
        return self.value[1]


class Gate:
    """The role of plugins that permit or reject steps of a job, or all that a queue requests."""

    moments: ClassVar[frozenset[Moment]] = frozenset(Moment)
    """The moments at which the gate is asked: all by default."""

    @hook(None)
    def verdict(self, job: JobView, moment: Moment) -> Vote:
        """Whether the job may take the step: the first rejection decides, and a tier that permits ends the vote."""
        raise NotImplementedError

    @hook(combine.first, "enabledOverused")
    def queue_verdict(self, queue: QueueView) -> Rejection | None:
        """Why the queue is allocated nothing more; None if it may be."""
        raise NotImplementedError


class Victims:
    """Which pods may be evicted, and which are to be."""

    @hook(None)
    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Which candidates may be evicted for the task, in order; None to abstain.

        The policies of a tier must agree, and the first tier that leaves any victims decides. A policy that only protects
        has no other opinion: it allows all single pods, and abstains about bundles for gangs.
        """
        return None if purpose.is_for_gang else candidates

    @hook(None)
    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Which of these victims may be evicted, in order: a protection that is valid whichever tier decides.

        It is asked about the victims that a tier agreed on, and about those that are evicted for no task.
        """
        raise NotImplementedError

    @hook(combine.union, "enabledVictim")
    def evicts(self, running: Rows) -> Rows:
        """Which of the running task rows are to be evicted for no task (``shuffle``)."""
        raise NotImplementedError


class Quota:
    """How the cluster is divided among queues."""

    def shares(self) -> Shares:
        """The shares, limits and guarantees of all queues.

        It is asked once in a session. Who may allocate, borrow, lend and reclaim follows from the shares.
        """
        raise NotImplementedError


class Nodes:
    """Which nodes a task can run on, how well they suit it, and the annotations of its pod."""

    @hook(combine.rejections, "enablePredicate")
    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Which nodes the task cannot run on, and why."""
        raise NotImplementedError

    @hook(combine.block_total, "enableNodeOrder")
    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """How well each of N nodes suits each of S tasks: (S, N), or what broadcasts to it; larger is better.

        ``tasks.request["cpu"]`` is an (S, 1) column and ``nodes.used["cpu"]`` an (N,) column, so that arithmetic between
        them gives the block. A policy that needs more of a task than its columns uses ``tasks.each``.
        """
        raise NotImplementedError

    def couples_nodes(self, task: TaskView) -> bool:
        """Whether reject and score for a node and the task depend on the other nodes asked about, or on pods there.

        All else that they depend on is recorded when they read it.
        """
        return False

    def domain_limits(self, task: TaskView) -> Sequence[DomainLimit] | None:
        """The limits on pods in domains of nodes by which reject rejects nodes; None if more than these couples nodes.

        The engine counts a run of equal tasks by them; where ``nodes.without_limits``, reject leaves them out.
        """
        return None

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """Return what reject and score depend on for the task on a node besides its columns, as a function of the node's row.

        They are asked once for all nodes with equal columns and states of all policies. They read it within
        ``cluster.by_state(nodes, state)``. None: what they read is recorded.
        """
        return None

    @hook(combine.merged)
    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """Annotations that the pod gets with its binding to this node."""
        raise NotImplementedError


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
    def ranking_state(self, node: int) -> Hashable:
        """What ``card_order`` depends on besides the task, the use of the node's cards and its idle resources."""


class ClaimAssignment(ABC):
    """Assigns volumes and devices to the claims of pods."""

    @abstractmethod
    def bind_claims(self, task: TaskView) -> Claims | None:
        """What must be allocated to the claims of the pod on volumes and devices before it is bound to its node."""

    def claim_preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """How preferred what the claims of the task get on each node is: (N,), 0 to 100; None where they have no preference."""
        return None


ROLES: tuple[type, ...] = (Order, Gate, Quota, Victims, Nodes)
"""The roles with hooks, which several policies may answer; the engine asks the first policy of each other role directly."""


def is_asked(plugin: Any, off: frozenset[str], moment: Moment) -> bool:
    """Return whether a plugin, or its class, is a gate that is asked at a moment, where these switches are off for it."""
    return moment in getattr(plugin, "moments", ()) and moment.switch not in off
