"""The hooks that a plugin can implement, with their types.

The base class is the specification. Each hook is a method with a typed signature, a description of its result, and a
decorator that names how the results of several plugins are combined (:mod:`volcanopy.scheduler.policy.combine`) and which
switch of the configuration file turns it off. A plugin overrides what it needs; nothing else is registered.

An instance exists for one session. It sees a read-only :class:`~volcanopy.scheduler.ledger.views.Cluster`, and neither the
session, nor a client, nor a clock.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.task_kinds import TaskValue
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.messages import Message, QuotaMessage, Reason
from volcanopy.scheduler.model.resources import Mask

Key = float | int | str | tuple[Any, ...]
"""A sort key: smaller comes first."""


class Arguments(BaseModel):
    """Base class of plugin arguments: a key that is not declared is an error when the configuration is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @property
    def measures_read(self) -> tuple[str, ...]:
        """The measures of nodes that a plugin reads with these arguments: users are informed where they are unknown."""
        return ()


def _split(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""An argument: a list of names, or a text in which commas separate them."""


class NoArguments(Arguments):
    """For plugins without arguments."""


@dataclass(frozen=True)
class Vote:
    """The result of a voting hook: permit, abstain, or reject for a reason (and at which gate).

    A rejection that ``yields`` is only for insufficient free resources: a fair share has precedence over it.
    """

    value: int
    gate: str = ""
    reason: Reason = ""
    yields: bool = False


PERMIT = Vote(1)
ABSTAIN = Vote(0)


def reject(gate: str, reason: Reason, yields: bool = False) -> Vote:
    """Return a rejecting vote with its message, or with the parts of one (:mod:`.messages`)."""
    return Vote(-1, gate, reason, yields)


@dataclass(frozen=True, eq=False)
class NodeRejection:
    """A reason why a predicate rejects nodes, in kube-scheduler's wording, with the (M,) mask of the rejected nodes.

    ``final``: evictions do not make the nodes feasible. ``temporary``: the nodes become feasible when the pods that terminate
    there are gone, so that the task can be nominated already. ``reserved_for``: the job that the nodes are reserved for, if any.
    """

    reason: str
    nodes: Mask
    final: bool = False
    temporary: bool = False
    reserved_for: str = ""


@dataclass(frozen=True)
class Rejection:
    """The gate that rejects something, with the message or its parts."""

    gate: str
    reason: Reason

    @property
    def never_passes(self) -> bool:
        """Whether the request exceeds the limit even if nothing else is allocated, or there is no limit to compare with."""
        return not isinstance(self.reason, QuotaMessage) or self.reason.exceeds_alone()


@dataclass(frozen=True)
class Invalid:
    """Why a job cannot take part in this cycle."""

    reason: str
    message: Message


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Hook:
    """The specification of one hook: its combination rule, and its switch in the configuration file if it has one.

    Without a rule it is combined for each moment or purpose.
    """

    rule: Callable[[Any], Callable[..., Any]] | None
    switch: str | None


def hook(rule: Callable[[Any], Callable[..., Any]] | None, switch: str | None = None) -> Callable[[F], F]:
    """Declare a method of :class:`Plugin` to be a hook."""

    def declare(method: F) -> F:
        method.__hook__ = Hook(rule, switch)  # type: ignore[attr-defined]
        return method

    return declare


A = TypeVar("A", bound=Arguments)
V = TypeVar("V", bound=Hashable)


class Plugin(Generic[A]):
    """One policy. Subclasses set their name, declare their arguments, and override hooks."""

    name: ClassVar[str]
    arguments: ClassVar[type[Arguments]] = NoArguments

    def __init__(self, args: A, cluster: Cluster, hierarchy: bool = False) -> None:
        """``hierarchy`` is the switch ``enableHierarchy``, which some plugins read."""
        self.args = args
        self.cluster = cluster
        self.hierarchy = hierarchy
        self.task_values: list[TaskValue[Any]] = []
        self.open()

    def open(self) -> None:
        """Compute what is valid for the whole session."""

    def close(self) -> None:
        """Do what is left to do once all actions have run."""

    def task_value(self, read: Callable[[TaskView], V], columns: Sequence[str] | None = None) -> TaskValue[V]:
        """Return, in ``open``, a value that reject and score read: tasks of one shape with equal values share answers.

        ``columns`` of the tasks of a job that it follows from spare reading it of each.
        """
        value = TaskValue(read, columns)
        self.task_values.append(value)
        return value
