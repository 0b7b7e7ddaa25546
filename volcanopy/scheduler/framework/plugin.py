"""What a plugin is: the hook specification.

The base class is the specification. Each hook is a method with a typed signature, a sentence that says what it decides,
and a decorator that names how the answers of several plugins combine (:mod:`volcanopy.scheduler.framework.combine`) and which
switch of the configuration file turns it off. A plugin overrides what it needs; nothing else is registered.

An instance lives for one session. It sees a read-only :class:`~volcanopy.scheduler.ledger.views.Cluster`, and neither the
session, nor a client, nor a clock.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from volcanopy.scheduler.ledger.cluster import Cluster, NodesView, TasksView
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import Reason
from volcanopy.scheduler.model.plan import Claims, GroupCondition
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Resources, Rows

Key = float | int | str | tuple[Any, ...]


class Arguments(BaseModel):
    """The base of plugin arguments: a key that is not declared is refused when the configuration is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class NoArguments(Arguments):
    """For plugins that take none."""


class Scope(IntEnum):
    """Which answers of a plugin's node hooks a placement changes."""

    STATIC = 0
    """None: the answers are the same during the whole session."""
    COLUMNS = 1
    """Those for the node that is used, by the columns of NodesView alone: many equal tasks are placed with one call."""
    NODE = 2
    """Those for the node that is used."""
    CLUSTER = 3
    """Those for all nodes."""


class Purpose(Enum):
    """What a place in the network is looked for: to allocate room that is there, or to evict whom it takes."""

    ALLOCATE = "allocate"
    EVICT = "evict"


@dataclass(frozen=True)
class Vote:
    """The answer of a voting hook: permit, abstain, or reject for a reason (and at which gate).

    A rejection that ``yields`` is for want of free room only: it gives way to a queue's claim on its own share.
    """

    value: int
    gate: str = ""
    reason: Reason = ""
    yields: bool = False


PERMIT = Vote(1)
ABSTAIN = Vote(0)


def reject(gate: str, reason: Reason, yields: bool = False) -> Vote:
    """A vote against, with the sentence that its owner will read (or what it is made of, :mod:`.messages`)."""
    return Vote(-1, gate, reason, yields)


@dataclass(frozen=True, eq=False)
class NodeRejection:
    """A predicate's no: the reason in kube-scheduler's words and the (M,) mask of the asked nodes that it refuses.

    ``final``: evicting pods from such a node would not help. ``temporary``: it is over when those that leave have left, so
    that the task can be meant for the node already. ``reserved_for``: the job that the node is reserved for, if any.
    """

    reason: str
    nodes: Mask
    final: bool = False
    temporary: bool = False
    reserved_for: str = ""


@dataclass(frozen=True)
class Rejection:
    """Why something may not be done: the gate that says so and the sentence for people, or what that is made of."""

    gate: str
    reason: Reason


@dataclass(frozen=True)
class GangPreemptor:
    """Who is to have the room of whole bundles of pods: a task of a gang, from jobs of its queue or ``across_queues`` queues."""

    task: TaskView
    across_queues: bool


@dataclass(frozen=True)
class Invalid:
    """Why a job cannot take part in this cycle; ``unblocked_by`` says what is missing, ``numbers`` how many of what."""

    reason: str
    message: str
    unblocked_by: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)


Rule = str
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Hook:
    """The specification of one hook: its rule of combination and its switch in the configuration file, if it has one."""

    rule: Rule
    switch: str | None


def hook(rule: Rule, switch: str | None = None) -> Callable[[F], F]:
    """Declare a method of :class:`Plugin` to be a hook."""

    def declare(method: F) -> F:
        method.__hook__ = Hook(rule, switch)  # type: ignore[attr-defined]
        return method

    return declare


A = TypeVar("A", bound=Arguments)


def per_shape(task: TaskView) -> None:
    """The ``cache_key`` of plugins whose answers about nodes depend on no more of a task than its shape."""


class Plugin(Generic[A]):
    """One policy. Subclasses name themselves, declare their arguments, and override the hooks that they answer."""

    name: ClassVar[str]
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __init__(self, args: A, cluster: Cluster, hierarchy: bool = False) -> None:
        """``hierarchy`` is the switch ``enableHierarchy``, which some plugins read."""
        self.args = args
        self.cluster = cluster
        self.hierarchy = hierarchy
        self.open()

    def open(self) -> None:
        """Reckon what holds for the whole session."""

    def cache_key(self, task: TaskView) -> Hashable:
        """What the predicate and node_order answers depend on besides the task's shape; by default on the task itself.

        Answers are shared by tasks of equal shape and key. ``cache_key = staticmethod(per_shape)`` shares them by shape.
        """
        return task.row

    def scope(self, task: TaskView) -> Scope:
        """How far a placement changes this plugin's predicate and node_order answers for the task."""
        return Scope.NODE

    # Order: keys, smaller first

    @hook("lexicographic", "enableQueueOrder")
    def queue_order(self, queue: QueueView) -> Key:
        """Which queue takes the next turn."""
        raise NotImplementedError

    @hook("columns", "enableJobOrder")
    def job_order(self, jobs: Rows) -> Ints | Floats | Mask:
        """Which job of a queue takes the next turn: one key for each of the (M,) job rows."""
        raise NotImplementedError

    @hook("columns", "enableTaskOrder")
    def task_order(self, tasks: Rows) -> Ints | Floats:
        """Which task of a job comes first: one key for each of the (M,) task rows."""
        raise NotImplementedError

    @hook("lexicographic", "enabledSubJobOrder")
    def subjob_order(self, part: SubJobView) -> Key:
        """Which sub-group of a job is placed next."""
        raise NotImplementedError

    # Gates of a job

    @hook("merged")
    def job_valid(self, jobs: Rows) -> Mapping[int, Invalid]:
        """Which of the (M,) job rows cannot take part in this cycle, and why."""
        raise NotImplementedError

    @hook("vote", "enableJobEnqueued")
    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job may go from Pending to Inqueue: whether its pods shall be made."""
        raise NotImplementedError

    @hook("each", "enableJobEnqueued")
    def job_enqueued(self, job: JobView) -> None:
        """Take notice that the job goes to Inqueue."""
        raise NotImplementedError

    @hook("every", "enableJobReady")
    def job_ready(self, job: JobView) -> bool:
        """Whether the job has what it takes to start: its placements may be bound."""
        raise NotImplementedError

    @hook("largest", "enableJobReady")
    def shortfall(self, job: JobView) -> int:
        """At least how many more tasks must be placed before job_ready can become true."""
        raise NotImplementedError

    @hook("vote", "enableJobPipelined")
    def job_pipelined(self, job: JobView) -> Vote:
        """Whether the job will have what it takes once room that is being freed is free."""
        raise NotImplementedError

    @hook("every", "enabledSubJobReady")
    def subjob_ready(self, part: SubJobView) -> bool:
        """Whether a sub-group of a job that divides has what it takes to start."""
        raise NotImplementedError

    @hook("vote", "enabledSubJobPipelined")
    def subjob_pipelined(self, part: SubJobView) -> Vote:
        """Whether a sub-group will have what it takes once room that is being freed is free."""
        raise NotImplementedError

    @hook("first_tier", "enableJobStarving")
    def job_starving(self, job: JobView) -> bool:
        """Whether the job lacks tasks that others may have to leave for."""
        raise NotImplementedError

    @hook("first")
    def job_condition(self, job: JobView) -> GroupCondition | None:
        """What the pod group's condition says when the session ends; its message, if empty, is the session's own."""
        raise NotImplementedError

    # Gates of a queue

    @hook("first", "enabledOverused")
    def overused(self, queue: QueueView) -> Rejection | None:
        """Why the queue gets no further turn in this session."""
        raise NotImplementedError

    @hook("first", "enableReservedNodes")
    def reservation(self, job: JobView) -> Mapping[str, str] | None:
        """What is known of room that is kept until the job fits, by name; None if it is none that room is kept for.

        For such a job want of free room is no reason not to admit it.
        """
        raise NotImplementedError

    @hook("first", "enabledAllocatable")
    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Why the queue may not take ``count`` more tasks equal to this one."""
        raise NotImplementedError

    @hook("every", "enablePreemptive")
    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """Whether the queue may take room from others for these tasks."""
        raise NotImplementedError

    @hook("unanimous", "enablePreemptive")
    def within_deserved(self, queue: QueueView, claim: Resources) -> bool:
        """Whether the queue's share covers that it holds this much in all; with nobody to say so it does not."""
        raise NotImplementedError

    @hook("first")
    def queue_shares(self) -> QueueShares | None:
        """What the queues are due, for people to see: it is written into their statuses when the session ends."""
        raise NotImplementedError

    @hook("lexicographic")
    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> Key:
        """Which queue has to give first when the queue ``reclaimer`` takes room back."""
        raise NotImplementedError

    # Victims

    @hook("intersect", "enablePreemptable")
    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Which candidates the task may displace within its queue; None to abstain."""
        raise NotImplementedError

    @hook("intersect", "enableReclaimable")
    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Which candidates of other queues the task may displace; None to abstain."""
        raise NotImplementedError

    @hook("narrow", "enablePreemptable")
    def preemptable_at_all(self, preemptor: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Which of the victims that a tier agrees on may be displaced at all: a protection that holds in every tier."""
        raise NotImplementedError

    @hook("narrow", "enableReclaimable")
    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Which of the victims that a tier agrees on may be displaced at all: a protection that holds in every tier."""
        raise NotImplementedError

    @hook("intersect")
    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Which candidates a gang may displace, where whole bundles leave (gangpreempt, gangreclaim); None to abstain."""
        raise NotImplementedError

    @hook("narrow")
    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Which of the victims that a tier agrees on a gang may displace at all: a protection that holds in every tier."""
        raise NotImplementedError

    @hook("union", "enabledVictim")
    def victim_tasks(self, running: Rows) -> Rows:
        """Which of the running tasks, all given by their rows, shall leave their nodes, whoever comes there next."""
        raise NotImplementedError

    @hook("narrow", "enabledVictim")
    def evictable(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Which of the tasks that shall leave their nodes may do so."""
        raise NotImplementedError

    # Nodes

    @hook("refusals", "enablePredicate")
    def predicate(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Which nodes the task cannot run on, and why not."""
        raise NotImplementedError

    @hook("block total", "enableNodeOrder")
    def node_order(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """How well each of N nodes suits each of S tasks: (S, N), or what broadcasts to it; larger is better.

        ``tasks.request["cpu"]`` is an (S, 1) column and ``nodes.used["cpu"]`` an (N,) column, so that arithmetic between
        them gives the block. A policy that needs more of a task than its columns uses ``tasks.each``.
        """
        raise NotImplementedError

    # The network

    @hook("first", "enabledHyperNodeGradient")
    def hypernode_gradient(
        self, requester: JobView | SubJobView, hypernodes: Rows, purpose: Purpose
    ) -> Sequence[Rows] | None:
        """In which of these hypernodes, all close enough, to try to place a job or sub-group: groups, the best first.

        None to leave it at the usual order, in which the lowest tiers come first.
        """
        raise NotImplementedError

    @hook("total", "enabledHyperNodeOrder")
    def hypernode_order(self, part: SubJobView, hypernodes: Rows) -> Floats:
        """How well each of the (M,) hypernodes suits a sub-group: larger is better."""
        raise NotImplementedError

    @hook("merged")
    def bind_annotations(self, task: TaskView, node: int) -> dict[str, str]:
        """Annotations that the pod gets with its binding to this node."""
        raise NotImplementedError

    @hook("first")
    def bind_claims(self, task: TaskView, node: int) -> Claims | None:
        """What must be settled of the pod's claims on volumes and devices before it is bound to this node."""
        raise NotImplementedError


HOOKS: dict[str, Hook] = {
    name: method.__hook__
    for name, method in vars(Plugin).items()
    if isinstance(getattr(method, "__hook__", None), Hook)
}
"""All hooks by name."""

SWITCHES: frozenset[str] = frozenset(
    {specification.switch for specification in HOOKS.values() if specification.switch}
    | {
        "enableHierarchy",
        "enabledClusterOrder",
        "enableBestNode",
        "enableTargetJob",
        "enabledVictim",
    }
)
"""Every ``enable*`` key of the configuration file; those of hooks that no plugin of ours answers are accepted and idle."""


def overrides(plugin: "Plugin[Any]", name: str) -> bool:
    """Whether a plugin answers a hook."""
    kind: Any = type(plugin)
    return name in _overridden(kind)


@lru_cache(maxsize=256)
def _overridden(kind: Any) -> frozenset[str]:
    """The hooks that a class of plugins answers: each session asks about all of them."""
    return frozenset(name for name in HOOKS if getattr(kind, name) is not getattr(Plugin, name))
