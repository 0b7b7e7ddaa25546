"""The combined hooks of the plugins of a session: each is one function, typed as the specification in ``plugin``."""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.ledger.reads import RecordedLedger, Scope
from volcanopy.scheduler.ledger.task_kinds import TaskKind
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.policy.answers import checked
from volcanopy.scheduler.policy.combine import Method, Tiers, flat, unprotected, victims, vote
from volcanopy.scheduler.policy.hook_table import HOOKS, implemented
from volcanopy.scheduler.policy.plugin import NodeRejection, Plugin, Rejection, Vote
from volcanopy.scheduler.policy.roles import Moment, Nodes, Purpose, is_asked

P = TypeVar("P")
Installed = tuple[tuple[tuple[Plugin[Any], frozenset[str]], ...], ...]
"""Tiers of plugins, each with the switches that are off for it."""

_OWN = ("volcanopy.", "volcanopy_policies.")
"""Modules of policies whose answers a session does not check: the tests of this repository do."""
_BY_PURPOSE = frozenset({"allows", "unprotected"})
"""The hooks that are combined for each purpose."""


class Hooks:
    """The combined hooks."""

    queue: Callable[[QueueView], tuple[Any, ...]]
    jobs: Callable[[Rows], tuple[Any, ...]]
    tasks: Callable[[Rows], tuple[Any, ...]]
    queue_verdict: Callable[[QueueView], Rejection | None]
    evicts: Callable[[Rows], Rows]
    reject: Callable[[TaskView, NodesView], list[NodeRejection]]
    score: Callable[[TasksView, NodesView], Floats]
    annotate: Callable[[TaskView, int], dict[str, str]]
    checks_all: ClassVar[bool] = False
    """Whether each result of volcanopy's own plugins is compared with the contract, too."""

    def __init__(self, installed: Installed, reads: RecordedLedger) -> None:
        """``reads`` records what the plugins read of the session."""
        layout = self._layout = _layout(tuple(tuple((type(plugin), off) for plugin, off in tier) for tier in installed))
        plugins = self._plugins = [plugin for tier in installed for plugin, _ in tier]
        self._off = [off for tier in installed for _, off in tier]
        self.__dict__.update(layout.defaults)
        self._of_nodes = tuple([plugins[number] for number in layout.of_nodes])
        self._values = tuple([value for plugin in self._of_nodes for value in plugin.task_values])
        for number, value in enumerate(self._values):
            value.number = number
        self._coupling: tuple[Any, ...] = tuple([plugins[number] for number in layout.coupling])
        self._with_states: tuple[Any, ...] = tuple([plugins[number] for number in layout.with_states])
        self._coupled: dict[Hashable, Coupling] = {}
        self._verdicts: dict[Moment, Callable[[JobView, Moment], Vote]] = {}
        self._reads = reads
        self._scopes: dict[Hashable, Scope] = {}
        """By cache key: the widest scope of all answers of ``reject`` and ``score`` so far."""
        self._rejection_scopes: dict[Hashable, Scope] = {}
        """The same of ``reject``."""
        self.unanswered = layout.unanswered

    def __getattr__(self, name: str) -> Any:
        """Combine a hook at its first use: a session uses few of them."""
        rule = HOOKS[name].rule if name in HOOKS else None
        if rule is None:
            raise AttributeError(name)
        combined = rule(self._answering(name))
        setattr(self, name, combined)
        return combined

    def _answering(self, name: str, switch: str | None = None) -> Tiers:
        """Return the methods of the plugins that answer a hook, by tier, without those with this switch off."""
        return tuple(
            [
                tuple([self._method(number, name) for number in tier if switch not in self._off[number]])
                for tier in self._layout.answering.get(name, ())
            ]
        )

    def _method(self, number: int, name: str) -> Method:
        """Return the method of a plugin for a hook; of one that is not volcanopy's own with a check of each result."""
        plugin = self._plugins[number]
        is_checked = self.checks_all or not type(plugin).__module__.startswith(_OWN)
        return checked(name, plugin) if is_checked else getattr(plugin, name)

    def policies(self, *roles: type[P]) -> list[tuple[P, frozenset[str]]]:
        """Return the policies of any of these classes in order, each with the switches that are off for it."""
        plugins: list[Any] = self._plugins
        return [(plugins[number], self._off[number]) for number in self._numbers(roles)]

    def first_policy(self, role: type[P], switch: str = "") -> P | None:
        """Return the first policy of this class for which a switch is not off; None without any."""
        numbers = self._numbers((role,), switch)
        return cast("P", self._plugins[numbers[0]]) if numbers else None

    def _numbers(self, roles: tuple[type, ...], switch: str = "") -> tuple[int, ...]:
        """Return the numbers of the policies of any of these classes for which a switch is not off."""
        numbers = self._layout.members.get((roles, switch))
        if numbers is None:
            entries = enumerate(zip(self._plugins, self._off, strict=True))
            numbers = tuple([at for at, (plugin, off) in entries if isinstance(plugin, roles) and switch not in off])
            self._layout.members[roles, switch] = numbers
        return numbers

    def verdict(self, job: JobView, moment: Moment) -> Vote:
        """Return the combined verdict of the gates that are asked at a moment."""
        combined = self._verdicts.get(moment)
        if combined is None:
            tiers = self._layout.gates[moment]
            combined = vote(tuple([tuple([self._method(number, "verdict") for number in tier]) for tier in tiers]))
            self._verdicts[moment] = combined
        return combined(job, moment)

    @cached_property
    def victims(self) -> Mapping[Purpose, Callable[[TaskView, Sequence[TaskView]], list[TaskView]]]:
        """By purpose, the candidates that may be evicted for a task."""
        return {
            purpose: victims(self._answering("allows", purpose.value), self._protect(purpose), purpose)
            for purpose in Purpose
        }

    def _protect(self, purpose: Purpose) -> Callable[[TaskView | None, Sequence[TaskView]], list[TaskView]]:
        return unprotected(flat(self._answering("unprotected", purpose.value)), purpose)

    @cached_property
    def evictable(self) -> Callable[[Sequence[TaskView]], list[TaskView]]:
        """Given victims, those that may be evicted for no task."""
        return partial(self._protect(Purpose.SHUFFLE), None)

    def job_keys(self, jobs: Rows, *further: NDArray[Any]) -> list[tuple[Any, ...]]:
        """Return the keys of each of these job rows, with its values in ``further`` columns at the end."""
        columns = [column.tolist() for column in (*self.jobs(jobs), *further)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(jobs)

    @cached_property
    def victim_policies(self) -> frozenset[type[Plugin[Any]]]:
        """The classes of the plugins that decide about victims."""
        numbers = {number for name in _BY_PURPOSE for tier in self._layout.answering.get(name, ()) for number in tier}
        return frozenset(type(self._plugins[number]) for number in numbers)

    def cache_key(self, task: TaskView) -> Hashable:
        """Return a key that is equal for tasks for which the node hooks return the same."""
        if isinstance(task, TaskKind):
            return task.key_of_kind
        return (task.shape, *[value.read(task) for value in self._values]) if self._values else task.shape

    def differ(self, tasks: Rows) -> Mask:
        """(M - 1,): for which of M tasks of one job the node hooks may not return the same as for the one before."""
        table = self._reads.snapshot.tasks
        differs: Mask = table.shape[tasks[1:]] != table.shape[tasks[:-1]]
        for value in self._values:
            columns = None if value.columns is None else [getattr(table, name)[tasks] for name in value.columns]
            if columns is None or any((column[1:] != column[0]).any() for column in columns):
                values = [value.read(TaskView(self._reads.ledger, task)) for task in tasks.tolist()]
                differs |= np.fromiter(map(operator.ne, values[1:], values), np.bool_, len(differs))
        return differs

    def by_cache_key(self, tasks: Sequence[int]) -> dict[Hashable, list[int]]:
        """Return some tasks of one job, in their order, by their cache keys."""
        groups: dict[Hashable, list[int]] = {}
        ends = [*(self.differ(np.array(tasks)).nonzero()[0] + 1).tolist(), len(tasks)] if tasks else ()
        for start, end in pairwise((0, *ends)):
            groups.setdefault(self.cache_key(TaskView(self._reads.ledger, tasks[start])), []).extend(tasks[start:end])
        return groups

    def kind(self, task: TaskView) -> TaskKind:
        """Return the kind of a task: of those for which the node hooks return the same."""
        if isinstance(task, TaskKind):
            return task
        return TaskKind(task, tuple([value.read(task) for value in self._values]))

    def couples_nodes(self, task: TaskView) -> bool:
        """Return whether the answers for a node and the task depend on other nodes."""
        return any(self.coupling(task)[:2])

    def coupling(self, task: TaskView) -> "Coupling":
        """Return which answers for a node and the task depend on other nodes: those of plugins that declare it."""
        if not self._coupling:
            return Coupling(rejections=False, scores=False)
        key = self.cache_key(task)
        coupling = self._coupled.get(key)
        if coupling is None:
            kind = self.kind(task)
            limits = [(each, each.domain_limits(kind)) for each in self._coupling]
            coupled = [(type(each), of_policy) for each, of_policy in limits if each.couples_nodes(kind)]
            is_limited = all(of_policy is not None for _, of_policy in coupled)
            coupling = self._coupled[key] = Coupling(
                any(each.reject is not Nodes.reject for each, _ in coupled),
                any(each.score is not Nodes.score for each, of_policy in coupled if of_policy is None),
                tuple([limit for _, of_policy in limits for limit in of_policy or ()]) if is_limited else (),
            )
        return coupling

    def node_states(self, kind: TaskKind) -> tuple[Callable[[int], Hashable], ...]:
        """Return what the policies declare that their answers for a node and a kind depend on besides its columns."""
        states = [each.node_state(kind) for each in self._with_states]
        return tuple([state for state in states if state is not None])

    def answers(self, kind: TaskKind, tasks: TasksView, nodes: NodesView) -> tuple[Floats, list[NodeRejection], Scope]:
        """Return the (N,) scores of nodes for a kind, which is also a block, the rejections, and the scope of what was read."""
        reads = self._reads
        nodes.without_limits = bool(self.coupling(kind).limits)
        scores, scope = self.scores(tasks, nodes)
        read, rows_read = nodes.forget()
        before = reads.start()
        rejections = self.reject(kind, nodes)
        of_rejections = max(reads.stop(before), nodes.scope)
        nodes.read |= read
        nodes.rows_read |= rows_read
        key = kind.key_of_kind
        scope = self._scopes[key] = max(scope, of_rejections, self._scopes.get(key, Scope.STATIC))
        self._rejection_scopes[key] = max(of_rejections, self._rejection_scopes.get(key, Scope.STATIC))
        return scores, rejections, scope

    def scores(self, tasks: TasksView, nodes: NodesView) -> tuple[Floats, Scope]:
        """Return the (N,) scores of nodes for the first task of a block, and the scope of what was read."""
        before = self._reads.start()
        scores = self.score(tasks, nodes)[0]
        return scores, max(self._reads.stop(before), nodes.scope)

    def rejections_are_static(self, task: TaskView) -> bool:
        """Return whether ``reject`` read nothing for the task that a placement changes."""
        return self._rejection_scopes.get(self.cache_key(task)) is Scope.STATIC and not any(self.coupling(task))

    def follows_from_columns(self, task: TaskView) -> bool:
        """Return whether the answers for a node and the task follow from the columns of the node, with equal tasks on it."""
        return self.scope(task) <= Scope.COLUMNS

    def scope(self, task: TaskView) -> Scope:
        """Return which answers for the task a placement changes; where none was recorded, a node is asked about."""
        if self.couples_nodes(task):
            return Scope.CLUSTER
        scope = self.scope_without_limits(task)
        return max(scope, Scope.NODE) if self.coupling(task).limits else scope

    def scope_without_limits(self, task: TaskView) -> Scope:
        """Return the same of answers that leave out the limits of the task."""
        if self.cache_key(task) not in self._scopes:
            ledger = self._reads.ledger
            kind = self.kind(task)
            self.answers(kind, TasksView([kind]), NodesView(ledger, np.arange(min(1, len(ledger.snapshot.nodes)))))
        return self._scopes[self.cache_key(task)]


def _overrides(kind: Any, method: str) -> bool:
    """Whether a class of policies overrides a method of Nodes that returns a default."""
    return issubclass(kind, Nodes) and getattr(kind, method) is not getattr(Nodes, method)


class Coupling(NamedTuple):
    """Which answers for a node depend on other nodes."""

    rejections: bool
    scores: bool
    limits: tuple[DomainLimit, ...] = ()
    """All that couples rejections; none if more than limits does."""


class _Layout(NamedTuple):
    """Which plugins answer which hook, by their numbers: the same in every session of a configuration."""

    answering: Mapping[str, tuple[tuple[int, ...], ...]]
    """By hook with any answer: the tiers with plugins that implement it and whose switch is not off."""
    defaults: Mapping[str, Callable[..., Any]]
    """The combined hooks that no plugin answers."""
    of_nodes: tuple[int, ...]
    """The plugins that answer a hook of nodes."""
    coupling: tuple[int, ...]
    """Those of which answers for a node may depend on other nodes."""
    with_states: tuple[int, ...]
    """The plugins that declare what answers for a node depend on."""
    unanswered: frozenset[str]
    """The hooks that no plugin answers."""
    gates: Mapping[Moment, tuple[tuple[int, ...], ...]]
    """By moment: the tiers with the gates that are asked then."""
    members: dict[tuple[tuple[type, ...], str], tuple[int, ...]]
    """By classes and switch, computed at first use: the plugins that are of any of them, for which the switch is not off."""


@lru_cache(maxsize=256)
def _layout(kinds: tuple[tuple[tuple[Any, frozenset[str]], ...], ...]) -> _Layout:
    """Return the layout for tiers of plugin classes, each with the switches that are off for it."""
    tiers: dict[str, list[list[int]]] = {name: [[] for _ in kinds] for name in HOOKS}
    in_order = [(tier, kind, off) for tier, entries in enumerate(kinds) for kind, off in entries]
    for number, (tier, kind, off) in enumerate(in_order):
        for name in implemented(kind):
            if HOOKS[name].switch not in off:
                tiers[name][tier].append(number)
    answering = {name: tuple(tuple(tier) for tier in of_hook if tier) for name, of_hook in tiers.items()}
    unanswered = frozenset(name for name, of_hook in answering.items() if not of_hook)
    of_nodes = sorted({*sum(answering["reject"], ()), *sum(answering["score"], ())})
    return _Layout(
        {name: of_hook for name, of_hook in answering.items() if of_hook},
        {name: rule(()) for name in sorted(unanswered) if (rule := HOOKS[name].rule) is not None},
        tuple(of_nodes),
        tuple(number for number in of_nodes if _overrides(in_order[number][1], "couples_nodes")),
        tuple(number for number, (_, kind, _) in enumerate(in_order) if _overrides(kind, "node_state")),
        unanswered,
        {
            moment: tuple(
                asked
                for tier in answering["verdict"]
                if (asked := tuple(number for number in tier if is_asked(*in_order[number][1:], moment)))
            )
            for moment in Moment
        },
        {},
    )
