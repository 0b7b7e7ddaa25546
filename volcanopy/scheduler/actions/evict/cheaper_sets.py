"""Sets of victims that cost less than those of a search, and that could suffice by their amounts.

A search evicts the cheapest victims one after the other until there is enough. Where victims are of different sizes another
set can be cheaper: one of 4 cpus instead of two of 3. Few victims are compared exhaustively:

1. List the choices of each job: none of its pods, some that it can spare, or its whole gang. Jobs with equal pods form one
   list, in which the cheaper ones come first.
2. Combine the choices list by list. Leave out what costs as much as the victims of the search, and what cannot suffice with
   all that follows.
3. Return those that suffice by their amounts, the cheapest first. Whether rules and plugins allow them is for the search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE


@dataclass(frozen=True)
class Request:
    """What victims must free: resources for some tasks on some nodes."""

    nodes: Rows
    request: Ints  # (R,): the request of a task, of different tasks the least.
    count: int  # How many tasks.

    @classmethod
    def of(cls, session: Session, nodes: Rows, tasks: Sequence[int]) -> "Request":
        """Return what these tasks need on these nodes."""
        return cls(nodes, session.snapshot.requests(tasks).min(axis=1), len(tasks))


@dataclass(frozen=True, eq=False)
class _Choices:
    """(C,): the choices of one job, or of several with equal pods; the first is to evict none."""

    rows: list[tuple[int, ...]]
    costs: Floats  # (8, C): the costs without what queues lose; that of none is the least.
    amounts: Ints  # (C, R): all that is evicted.
    freed: Ints  # (C, R, M): what becomes free on each node of the request.
    queue: int


class CheaperSets:
    """The comparison of sets for one job."""

    def __init__(self, session: Session, costs: EvictionCosts, candidates: Candidates) -> None:
        self._session, self._costs, self._candidates = session, costs, candidates

    def find(
        self, bundles: Sequence[Bundle], spare: dict[int, int], needed: Request, bound: Cost | None
    ) -> list[set[int]]:
        """Return sets of tasks that cost less than ``bound``, if given, and could suffice; the cheapest first.

        ``bundles`` are the victims to choose from, ``spare`` how many pods each job can spare.
        """
        lists = self._lists(bundles, spare, needed)
        free = self._session.ledger.future[:, needed.nodes]
        rest = np.zeros((len(lists) + 1, *free.shape), dtype=np.int64)
        for at in range(len(lists) - 1, -1, -1):
            rest[at] = rest[at + 1] + lists[at].freed.max(axis=0)
        chosen = np.zeros((1, 0), dtype=np.int64)
        for at, choices in enumerate(lists):
            count = len(choices.rows)
            chosen = np.column_stack([np.repeat(chosen, count, axis=0), np.tile(np.arange(count), len(chosen))])
            freed = sum(each.freed[chosen[:, number]] for number, each in enumerate(lists[: at + 1]))
            keep = _suffices(free + freed + rest[at + 1], needed)
            costs = self._cost(lists[: at + 1], chosen)
            if bound is not None:
                keep &= _is_less(costs, bound)
            chosen, costs = chosen[keep], costs[:, keep]
            if len(chosen) > defaults.COMPARED_SETS:
                chosen = chosen[np.lexsort(costs[::-1])[: defaults.COMPARED_SETS]]
        if not len(chosen) or not lists:
            return []
        order = np.lexsort(self._cost(lists, chosen)[::-1])[: defaults.RETURNED_SETS]
        return [
            {row for choices, number in zip(lists, numbers, strict=True) for row in choices.rows[number]}
            for numbers in chosen[order].tolist()
        ]

    def _cost(self, lists: Sequence[_Choices], chosen: Ints) -> Floats:
        """(8, C): the cost of each combination of choices."""
        costs = np.zeros((8, len(chosen)), dtype=np.float64)
        highest = np.full(len(chosen), -1.0)
        lost: dict[int, Ints] = {}
        for choices, numbers in zip(lists, chosen.T, strict=True):
            costs += choices.costs[:, numbers]
            highest = np.maximum(highest, choices.costs[1, numbers])
            for loser in self._candidates.losers.get(choices.queue, ()):
                lost[loser] = lost.get(loser, 0) + choices.amounts[numbers]
        costs[1] = highest
        if lost:
            costs[0], costs[5] = self._costs.losses.costs(lost)
        return costs

    def _lists(self, bundles: Sequence[Bundle], spare: dict[int, int], needed: Request) -> list[_Choices]:
        of_job: dict[int, list[Bundle]] = {}
        for bundle in bundles:
            of_job.setdefault(bundle.job, []).append(bundle)
        equal: dict[object, list[Bundle]] = {}
        lists: list[_Choices] = []
        for job, members in of_job.items():
            queue = int(self._costs.queue[members[0].rows[0]])
            if len(members) == 1:
                key = (members[0].cost[1], members[0].breaks, queue, self._freed(members[0].rows, needed).tobytes())
                equal.setdefault(key, []).append(members[0])
                continue
            single = [bundle for bundle in members if not bundle.breaks]
            sets = self._subsets(single, spare.get(job, len(members)), needed)
            lists.append(self._choices([*sets, *([bundle] for bundle in members if bundle.breaks)], queue, needed))
        for (_, _, queue, _), members in equal.items():  # type: ignore[misc]
            most = self._most(members[0], needed)
            ordered = sorted(members, key=lambda bundle: bundle.cost)[:most]
            lists.append(self._choices([ordered[:count] for count in range(1, len(ordered) + 1)], queue, needed))
        return lists

    def _subsets(self, singles: Sequence[Bundle], most: int, needed: Request) -> list[list[Bundle]]:
        """Return which of the single bundles of a job may be evicted together, of equal ones the cheapest."""
        equal: dict[object, list[Bundle]] = {}
        snapshot = self._session.snapshot
        minima = np.append(snapshot.roles.minimum, 0)  # the last one is for tasks without a role
        for single in sorted(singles, key=lambda bundle: bundle.cost):
            role = int(snapshot.tasks.role[single.rows[0]])
            key = (single.cost[1], role if minima[role] else NONE, self._freed(single.rows, needed).tobytes())
            equal.setdefault(key, []).append(single)
        ranges = [range(min(len(group), most, self._most(group[0], needed)) + 1) for group in equal.values()]
        if np.prod([len(each) for each in ranges], dtype=np.float64) > defaults.COMPARED_SETS:
            ranges = [each[:2] for each in ranges[:10]]
        result = []
        for counts in product(*ranges):
            if 0 < sum(counts) <= most:
                pairs = zip(equal.values(), counts, strict=False)
                result.append([bundle for group, count in pairs for bundle in group[:count]])
        return result

    def _most(self, bundle: Bundle, needed: Request) -> int:
        """Return how many equal bundles could be needed at most."""
        freed = self._freed(bundle.rows, needed).max(axis=1)
        total = needed.request * needed.count
        dims = (freed > 0) & (total > 0)
        return int((-(-total[dims] // freed[dims])).max(initial=1)) * len(needed.nodes)

    def _choices(self, sets: Sequence[Sequence[Bundle]], queue: int, needed: Request) -> _Choices:
        costs = np.zeros((8, len(sets) + 1), dtype=np.float64)
        costs[1, 0] = -1.0
        for at, bundles in enumerate(sets, start=1):
            table = np.array([bundle.cost for bundle in bundles], dtype=np.float64)
            costs[:, at] = table.sum(axis=0)
            costs[1, at] = table[:, 1].max()
        rows = [(), *(tuple(row for bundle in bundles for row in bundle.rows) for bundles in sets)]
        freed = np.stack([self._freed(members, needed) for members in rows])
        amounts = np.stack([self._session.snapshot.requests(members).sum(axis=1) for members in rows])
        return _Choices(rows, costs, amounts, freed, queue)

    def _freed(self, rows: Sequence[int], needed: Request) -> Ints:
        """(R, M): what the tasks free on each node."""
        on_node = self._session.ledger.node[list(rows)][:, None] == needed.nodes
        return self._session.snapshot.requests(rows) @ on_node.astype(np.int64)


def _suffices(free: Ints, needed: Request) -> Mask:
    """(C,): whether the (C, R, M) free amounts suffice for the tasks."""
    dims = np.flatnonzero(needed.request > 0)
    if not len(dims):
        return np.ones(len(free), dtype=np.bool_)
    slots = (np.maximum(free[:, dims], 0) // needed.request[dims, None]).min(axis=1)
    return slots.sum(axis=1) >= needed.count


def _is_less(costs: Floats, bound: Cost) -> Mask:
    """(C,): which of the (8, C) costs are less than a bound."""
    less = np.zeros(costs.shape[1], dtype=np.bool_)
    equal = np.ones(costs.shape[1], dtype=np.bool_)
    for part, most in zip(costs, bound, strict=False):
        less |= equal & (part < most)
        equal &= part == most
    return less
