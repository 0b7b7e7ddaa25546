"""Usage of GPU cards by running pods and by the session, and the assignment of cards."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from volcanopy.api.builtin.gpu_annotations import CardShare
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import AssignedPod, AssignedPods
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.assignments import Assigner, Placed
from volcanopy_policies.devices.cards.card_selection import (
    CORES,
    FIRST_RULE,
    MEMORY,
    PODS,
    CardChoice,
    CardCriteria,
    CardOrder,
    CardTable,
    choose,
)
from volcanopy_policies.devices.cards.instances import UNKNOWN

V = TypeVar("V")
_KEPT = 1 << 14
"""The most choices that a session keeps."""
Reader = Callable[[AssignedPod], tuple[Iterable[CardShare], tuple[int, ...]]]
"""Returns the shares of cards of a pod on its node, and the numbers of the exclusive rules that match it."""


@dataclass(frozen=True, eq=False)
class PodUsage:
    """The usage of one pod: entries to add to a usage table or to subtract from it."""

    cards: Rows
    """The numbers of its cards, once per share."""
    amounts: Ints
    """(FIRST_RULE + rules + instances, cards): the usage of each."""

    def add_to(self, table: Ints, sign: int) -> None:
        """Add the usage to a table, or (-1) subtract it."""
        np.add.at(table.T, self.cards, sign * self.amounts.T)


class _NumberedShare(NamedTuple):
    """A share of the card with this number, and the exclusive rules that match the pod.

    ``instance`` is its column on a card in MIG mode, -1 on another card.
    """

    card: int
    memory: int
    cores: int
    rules: tuple[int, ...]
    instance: int


class CardUsage:
    """The usage of all cards by running pods, kept across sessions and updated for nodes whose assigned pods changed."""

    def __init__(self, cards: CardTable, rules: int) -> None:
        self._cards, self._rules = cards, rules
        self._synced: dict[int, tuple[AssignedPods, dict[int, list[_NumberedShare]]]] = {}
        self._instance_rows = FIRST_RULE + rules
        self.now: Ints = np.zeros((self._instance_rows + cards.instances.width, len(cards)), dtype=np.int64)
        self.later: Ints = np.zeros_like(self.now)
        """The same without terminating pods."""

    def sync(self, cluster: Cluster, reader: Reader) -> None:
        """Update the usage to a snapshot."""
        status = cluster.snapshot.tasks.status
        staying: list[_NumberedShare] = []
        terminating: list[_NumberedShare] = []
        for node, pods in enumerate(cluster.snapshot.nodes.assigned_pods):
            known = self._synced.get(node)
            if pods is (known[0] if known else None):
                continue
            shares = {pod.row: self._numbered(node, *reader(pod)) for pod in pods or ()}
            self._synced[node] = (pods or (), shares)
            own = slice(int(self._cards.start[node]), int(self._cards.start[node + 1]))
            self.now[:, own] = 0
            self.later[:, own] = 0
            staying += [share for row, result in shares.items() if status[row] != Status.RELEASING for share in result]
            terminating += [
                share for row, result in shares.items() if status[row] == Status.RELEASING for share in result
            ]
        stays = self._sum(staying)
        stays.add_to(self.now, +1)
        stays.add_to(self.later, +1)
        self._sum(terminating).add_to(self.now, +1)

    def pod_usage(self, node: int, row: int) -> PodUsage | None:
        """Return the usage of a running pod."""
        known = self._synced.get(node)
        result = None if known is None else known[1].get(row)
        return None if result is None else self._sum(result)

    def _numbered(self, node: int, shares: Iterable[CardShare], rules: tuple[int, ...]) -> list[_NumberedShare]:
        index, memory, instances = self._cards.index, self._cards.memory, self._cards.instances
        result = []
        for share in shares:
            number = index.get((node, share.id))
            if number is not None:
                amount, instance = int(memory[number]) if share.whole else share.memory, -1
                if instances.divided(np.array([number])).all():
                    instance = instances.column(number, share.instance)
                    if instance != UNKNOWN:
                        amount = int(instances.charged(np.array([number]), np.array([instance]))[0])
                result.append(_NumberedShare(number, amount, share.cores, rules, instance))
        return result

    def _sum(self, shares: Sequence[_NumberedShare]) -> PodUsage:
        amounts = np.zeros((len(self.now), len(shares)), dtype=np.int64)
        amounts[PODS] = 1
        amounts[MEMORY] = [share.memory for share in shares]
        amounts[CORES] = [share.cores for share in shares]
        for rule in range(self._rules):
            amounts[FIRST_RULE + rule] = [rule in share.rules for share in shares]
        for position, share in enumerate(shares):
            if share.instance >= 0:
                amounts[self._instance_rows + share.instance, position] = 1
        return PodUsage(np.array([share.card for share in shares], dtype=np.intp), amounts)


@dataclass(frozen=True, eq=False)
class AssignedCards:
    """The cards assigned to a task: the choice, and its usage."""

    choice: CardChoice
    pod_usage: PodUsage

    def moved(self, distance: int) -> "AssignedCards":
        """The same cards of another node, as :meth:`CardChoice.moved`."""
        if not distance:
            return self
        pod_usage = PodUsage(self.pod_usage.cards + distance, self.pod_usage.amounts)
        return AssignedCards(self.choice.moved(distance), pod_usage)


class SessionCards(Assigner[AssignedCards]):
    """The cards of all nodes in a session."""

    def __init__(
        self,
        cluster: Cluster,
        cards: CardTable,
        usage: CardUsage,
        order: CardOrder,
        criteria: Callable[[int], CardCriteria],
    ) -> None:
        """``criteria`` returns the criteria of a task."""
        self._cluster, self.cards, self._usage, self._order, self._criteria = cluster, cards, usage, order, criteria
        self._now, self._later = usage.now.copy(), usage.later.copy()
        self._choices: dict[Hashable, tuple[int, CardChoice]] = {}
        """By the state of a node: the number of the first card of such a node, and the choice there."""
        self._following: dict[Hashable, tuple[int, AssignedCards | None, Hashable]] = {}
        """By the state of a node: the same number, what a task is assigned there, and the state after that."""
        self.changed: list[int] = []
        """The rows of the nodes whose cards were counted, in order."""
        self._states: dict[int, tuple[CardCriteria, Hashable]] = {}
        """By node until its cards change: the last criteria that it was asked about, and its state for them."""

    def assign(self, placed: Sequence[Placed[AssignedCards]], assigned: dict[int, AssignedCards]) -> None:
        """Choose and count the cards of tasks in order, all of one node at once."""
        by_node: dict[int, list[Placed[AssignedCards]]] = {}
        for task in placed:
            by_node.setdefault(task[1], []).append(task)
        for node, tasks in by_node.items():
            self._assign_on(node, tasks, assigned)

    def _assign_on(self, node: int, tasks: Sequence[Placed[AssignedCards]], assigned: dict[int, AssignedCards]) -> None:
        """Assign cards of a node, with the resources that were idle before each placement.

        What follows on a state of the node is kept: a run of equal tasks is counted with one call.
        """
        requests = self._cluster.snapshot.requests([task for task, *_ in tasks])[:, ::-1].cumsum(axis=1)[:, ::-1]
        idle = np.ascontiguousarray((self._cluster.ledger.idle[:, [node]] + requests).T)[:, :, None]
        first, run = int(self.cards.start[node]), list[AssignedCards]()
        criteria, state = None, None
        for number, (task, _, pipelined, previous) in enumerate(tasks):
            of_task = self._criteria(task)
            if of_task is not criteria or state is None:
                self._count_run(node, run)
                criteria, state = of_task, self.state(node, of_task)
            is_restored = previous is not None and (
                len(tasks) == 1 or int(self._cluster.ledger.status[task]) == Status.BINDING
            )
            before = None
            if state is not None and not is_restored and not pipelined:
                before = state, None if of_task.preference is None else idle[number].tobytes()
            entry = self._following.get(before)
            if entry is not None:
                cards, state = entry[1] and entry[1].moved(first - entry[0]), entry[2]
                run += [cards] if cards is not None else []
            else:
                self._count_run(node, run)
                cards = self.choose(task, node, pipelined, previous if is_restored else None, idle[number])
                if cards is not None:
                    self.count(node, cards, pipelined, +1)
                state = None if before is None else self.state(node, of_task)
                if before is not None:
                    _keep(self._following, before, (first, cards, state))
            if cards is not None:
                assigned[task] = cards
        self._count_run(node, run)

    def _count_run(self, node: int, run: list[AssignedCards]) -> None:
        """Count the cards of tasks of a node, which are then none."""
        if run:
            usages = [assigned.pod_usage for assigned in run]
            cards = np.concatenate([usage.cards for usage in usages])
            usage = PodUsage(cards, np.concatenate([usage.amounts for usage in usages], axis=1))
            self.count(node, replace(run[0], pod_usage=usage), False, +1)
            run.clear()

    def choose(
        self, task: int, node: int, pipelined: bool, previous: AssignedCards | None, idle: Ints | None = None
    ) -> AssignedCards | None:
        """Return the cards for a task on a node; None if they are not free. ``idle`` as of :meth:`evaluate`."""
        criteria = self._criteria(task)
        if previous is not None:
            same = np.zeros(len(criteria.allowed), dtype=np.bool_)
            same[previous.pod_usage.cards] = True
            assigned = self.assigned(node, replace(criteria, allowed=criteria.allowed & same), pipelined, idle)
            if assigned is not None:
                return assigned
        return self.assigned(node, criteria, pipelined, idle)

    def count(self, node: int, assigned: AssignedCards, pipelined: bool, sign: int) -> None:
        """Count cards as taken, or (-1) as free."""
        self._changed(node)
        assigned.pod_usage.add_to(self._later, sign)
        if not pipelined:
            assigned.pod_usage.add_to(self._now, sign)

    def count_eviction(self, task: int, sign: int) -> None:
        """Count the cards of an evicted pod as free later, or (-1) as taken."""
        tasks = self._cluster.snapshot.tasks
        pod_usage = self._usage.pod_usage(int(tasks.node[task]), task)
        if pod_usage is not None and tasks.status[task] != Status.RELEASING:
            self._changed(int(tasks.node[task]))
            pod_usage.add_to(self._later, -sign)

    def _changed(self, node: int) -> None:
        self.changed.append(node)
        self._states.pop(node, None)

    @property
    def has_terminating(self) -> bool:
        """Whether cards become free when pods have terminated."""
        return bool((self._now > self._later).any())

    def usage(self, cards: Rows) -> Ints:
        """(FIRST_RULE + rules + instances, K): the usage of these cards, by pods that are there now or will be."""
        return np.maximum(self._now[:, cards], self._later[:, cards])

    def running(self, task: int) -> Rows:
        """Return the cards of a task that was on its node before the session."""
        node = int(self._cluster.snapshot.tasks.node[task])
        pod_usage = None if node == NONE else self._usage.pod_usage(node, task)
        return np.empty(0, dtype=np.intp) if pod_usage is None else pod_usage.cards

    def fits(self, nodes: Rows, criteria: CardCriteria, pipelined: bool) -> Mask:
        """Return on which of these nodes the pod fits, now or (``pipelined``) once terminating pods are gone."""
        if (len(nodes) != 1 or criteria.kind is None) and sum([need is not None for need in criteria.requests]) == 1:
            criteria = criteria.without_preference  # which of the fitting cards it gets does not matter
        return self.evaluate(nodes, criteria, pipelined).fits

    def evaluate(self, nodes: Rows, criteria: CardCriteria, pipelined: bool, idle: Ints | None = None) -> CardChoice:
        """Return the choice on these nodes, now or (``pipelined``) once terminating pods are gone.

        ``idle`` are the (R, M) resources without the pod; by default those of the session.
        """
        if criteria.preference is None:
            idle = None
        elif idle is None:
            idle = self._cluster.ledger.idle[:, nodes]
        key = None
        if len(nodes) == 1 and criteria.kind is not None:
            node = int(nodes[0])
            key = self.state(node, criteria), None if idle is None else idle.tobytes(), pipelined
            first, entry = int(self.cards.start[node]), self._choices.get(key)
            if entry is not None:
                return entry[1].moved(first - entry[0])
        taken = (self._later,) if pipelined else (self._now, self._later)
        choice = choose(self.cards, taken, nodes, criteria, self._order, idle)
        if key is not None:
            _keep(self._choices, key, (first, choice))
        return choice

    def state(self, node: int, criteria: CardCriteria) -> Hashable:
        """Return what the choice on a node depends on besides its idle resources; None if that is not known."""
        if criteria.kind is None:
            return None
        entry = self._states.get(node)
        if entry is None or entry[0] is not criteria:
            own = slice(int(self.cards.start[node]), int(self.cards.start[node + 1]))
            columns = self._now[:, own], self._later[:, own], criteria.allowed[own]
            ranking = None if criteria.preference_state is None else criteria.preference_state(node)
            state = criteria.kind, self.cards.layout[node], ranking, *[column.tobytes() for column in columns]
            entry = self._states[node] = criteria, state
        return entry[1]

    def fits_empty_nodes(self, nodes: Rows, criteria: CardCriteria) -> Mask:
        """Return on which nodes the pod would fit without any other pod."""
        nothing = (np.zeros_like(self._now),)
        return choose(self.cards, nothing, nodes, criteria.without_preference, CardOrder.FIRST).fits

    def assigned(
        self, node: int, criteria: CardCriteria, pipelined: bool, idle: Ints | None = None
    ) -> AssignedCards | None:
        """Return the cards for a task with these criteria on its node; None if they are not free."""
        choice = self.evaluate(np.array([node]), criteria, pipelined, idle)
        if not choice.fits[0]:
            return None
        numbers = np.concatenate([np.empty(0, dtype=np.intp), *choice.cards])
        amounts = np.zeros((len(self._now), len(numbers)), dtype=np.int64)
        amounts[PODS] = 1
        amounts[MEMORY] = np.concatenate([np.empty(0, dtype=np.int64), *choice.memory])
        cores = [request.cores if request else 0 for request in criteria.requests]
        amounts[CORES] = np.repeat(cores, [len(cards) for cards in choice.cards])
        amounts[criteria.rules if criteria.counted is None else criteria.counted] = 1
        divided = self.cards.instances.divided(numbers)
        if divided.any():
            columns = np.concatenate(choice.instances)[divided]
            amounts[len(amounts) - self.cards.instances.width + columns, np.flatnonzero(divided)] = 1
        return AssignedCards(choice, PodUsage(numbers, amounts))


def _keep(entries: dict[Hashable, V], state: Hashable, entry: V) -> None:
    """Add an entry, of no more than are kept."""
    if len(entries) >= _KEPT:
        entries.clear()
    entries[state] = entry


def matching_rules(rules: Sequence[Mapping[str, str]], labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return the numbers of the rules all of whose labels the pod has."""
    return tuple(
        number for number, rule in enumerate(rules) if all(labels.get(key) == value for key, value in rule.items())
    )
