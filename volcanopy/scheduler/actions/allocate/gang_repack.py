"""Repacking: another search for gangs that did not fit task by task.

Placing tasks one by one in their order can fragment the cluster: small tasks are spread over the nodes that a large one
needs, or a pod that fits anywhere takes the only node of one that does not.

1. Group the tasks of the gang by shape and role; gangs larger than defaults.REPACKED_TASKS are left out, and those of one
   group unless the node of one task decides about the others, as with pod affinity.
2. Select as many tasks of each group as the minimum of the gang needs, the smallest first.
3. Stop if the free resources are insufficient in any order.
4. If amounts alone decide, assign nodes by amounts in two ways (:mod:`.vector_packing`) and place the tasks so.
5. Otherwise try two orders: fewest feasible nodes first, and largest first; with device claims others too. Place each task on
   the node where it leaves least, and backtrack a limited number of times. Where the node of one task decides about the others,
   place the first task in one set of nodes that the next one allows after the other, and the others as usual.

Where a network topology confines the gang or one of its sub-groups, all this is done among the nodes of a hypernode.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations

import numpy as np

from volcanopy.scheduler.actions.allocate.vector_packing import packing
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE


@dataclass
class _Budget:
    """What all repacking of one session may still try."""

    trials: int = defaults.REPACK_TRIALS
    """How many placements."""
    steps: int = defaults.REPACK_STEPS
    """How many steps of vector packing."""
    failed: dict[Hashable, int] = field(default_factory=dict)
    """The gangs, by what distinguishes them, that could not be repacked, with the number of evictions until then."""


@dataclass
class _Group:
    """Tasks of equal shape and one role."""

    task: TaskView
    """The first of them."""
    rows: list[int]
    size: float
    """The largest fraction that one takes of the largest node."""
    most: int
    """How many would fit if there were no other tasks."""
    needed: int = 0


@dataclass
class Repacking:
    """A search for placements with which a job, or one of its sub-groups, can start."""

    session: Session
    queue: QueueView
    job: JobView
    statement: Statement
    placement: Placement
    """Selects among the nodes where the tasks may be placed."""
    part: SubJobView | None = None
    """The sub-group; None for the whole job."""

    def place(self, tasks: Sequence[int]) -> list[int]:
        """Place tasks in other orders.

        Returns the tasks that are left over: all of them, with the statement unchanged, if no order helps.
        """
        everything, session = list(tasks), self.session
        if not 1 < len(everything) <= defaults.REPACKED_TASKS:
            return everything
        rows_of = self._rows_by_shape(everything)
        if len(rows_of) < 2 and not self._is_coupled(everything[0]):
            return everything
        key = (
            session.quotas.is_beyond_shares,
            self.queue.row,
            self.placement.is_in_reach.tobytes(),
            None if session.limits is None else session.limits.limit_class(self.job.row),
            session.gangs.shortfall(self.job, self.part),
            self.job.row if self.part is None and self.job.group.spec.sub_group_policy else None,
            tuple(role.minimum - role.ready for role in self.job.roles),
            *((shape, len(rows)) for shape, rows in rows_of.items()),
        )
        failed = self._budget.failed
        if failed.get(key) == len(session.ledger.evictions):
            return everything  # free resources only decrease until the next eviction
        groups, mark = [self._group(rows) for rows in rows_of.values()], self.statement.checkpoint()
        if self._select(groups) and self._has_capacity(groups):
            for order in self._attempts([group for group in groups if group.needed]):
                if session.gangs.is_ready(self.job, self.part):
                    return [row for row in everything if row not in order]
                self.statement.rollback(mark)
        failed[key] = len(session.ledger.evictions)
        return everything

    @property
    def _budget(self) -> _Budget:
        return self.session.state(_Budget)

    def _task(self, row: int) -> TaskView:
        return TaskView(self.session.ledger, row)

    def _is_coupled(self, row: int) -> bool:
        """Return whether placements on other nodes decide whether a node may take a task."""
        return self.session.hooks.coupling(self._task(row)).rejections

    def _rows_by_shape(self, tasks: Sequence[int]) -> dict[Hashable, list[int]]:
        """Return the tasks in order by shape and name of their role."""
        names, groups = self.session.snapshot.roles.names, dict[Hashable, list[int]]()
        for row in tasks:
            task = self._task(row)
            role = names[task.role] if task.role != NONE else ""
            groups.setdefault((self.session.hooks.cache_key(task), role), []).append(row)
        return groups

    def _group(self, rows: list[int]) -> _Group:
        session, task = self.session, self._task(rows[0])
        request = task.request.values
        dims, nodes = np.flatnonzero(request), np.flatnonzero(self._usable_nodes(task))
        largest = session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1)
        fitting = (session.ledger.free(dims, nodes) // request[dims, None]).min(axis=0, initial=len(rows))
        return _Group(task, rows, float((request[dims] / largest).max(initial=0.0)), min(int(fitting.sum()), len(rows)))

    def _usable_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes that may take a task; all, where placements of others decide."""
        return self.placement.is_in_reach if self._is_coupled(task.row) else self.placement.feasible_nodes(task)

    def _select(self, groups: list[_Group]) -> bool:
        """Set how many of each group are needed: the minima of roles, then the smallest; return whether they exist."""
        missing = self.session.gangs.shortfall(self.job, self.part)
        ascending = sorted(groups, key=lambda group: group.size)
        roles = [role for role in self.job.roles if role.minimum > 0 and (self.part is None or self.part.is_whole)]
        if self.job.min_available >= sum(role.minimum for role in roles):
            lacking = {role.row: role.minimum - role.ready for role in roles}
            for group in ascending:
                group.needed = max(0, min(group.most, lacking.get(group.task.role, 0)))
                lacking[group.task.role] = lacking.get(group.task.role, 0) - group.needed
                missing -= group.needed
        for group in ascending:
            more = max(0, min(group.most - group.needed, missing))
            group.needed += more
            missing -= more
        return missing <= 0 and any(group.needed for group in groups)

    def _has_capacity(self, groups: Sequence[_Group]) -> bool:
        """Return whether the free resources of all feasible nodes together suffice."""
        needed = [group for group in groups if group.needed]
        request = np.sum([group.task.request.values * group.needed for group in needed], axis=0)
        dims = np.flatnonzero(request)
        nodes = np.flatnonzero(np.logical_or.reduce([self._usable_nodes(group.task) for group in needed]))
        return bool((self.session.ledger.free(dims, nodes).sum(axis=1) >= request[dims]).all())

    def _attempts(self, needed: Sequence[_Group]) -> Iterator[list[int]]:
        """Place the needed tasks in the statement in one way after the other; yield the tasks of each complete placement."""
        mark = self.statement.checkpoint()
        if all(self.session.hooks.follows_from_columns(group.task) for group in needed):
            for balanced in (False, True):
                order = self._pack_by_amounts(needed, balanced=balanced)
                if order:
                    yield order
                self.statement.rollback(mark)
            return
        is_coupled = any(self._is_coupled(group.task.row) for group in needed)
        searches = ((self._search_by_first_node,) if is_coupled else ()) + ((self._search,) if len(needed) > 1 else ())
        for order in self._orders(needed, everyone=is_coupled):
            for search in searches:  # for equal tasks only the first node matters
                if search(order):
                    yield order
                self.statement.rollback(mark)

    def _pack_by_amounts(self, needed: Sequence[_Group], *, balanced: bool) -> list[int]:
        """Place the needed tasks as vector packing assigns them to nodes; return them, none if that is not possible."""
        order = [row for group in needed for row in group.rows[: group.needed]]
        if self._budget.steps < len(order):
            return []
        groups = np.repeat(np.arange(len(needed)), [group.needed for group in needed])
        feasible = np.array([self.placement.feasible_nodes(group.task) for group in needed])
        request = np.array([group.task.request.values for group in needed]).T
        dims, nodes = np.flatnonzero(request.any(axis=1)), np.flatnonzero(feasible.any(axis=0))
        free, request = self.session.ledger.free(dims, nodes), request[dims]
        scale = self._scale(dims)
        targets, steps = packing(free, request[:, groups], feasible[:, nodes][groups], scale, balanced=balanced)
        self._budget.steps -= steps
        if targets is None:
            return []
        for row, node in zip(order, nodes[targets].tolist(), strict=True):
            if not self._is_allowed(self._task(row)) or not self._is_free(self._task(row), node):
                return []
            self.statement.allocate(row, node)
        return order

    def _orders(self, groups: Sequence[_Group], everyone: bool) -> Iterator[list[int]]:
        """Yield the tasks of these groups: those with the fewest feasible nodes first, then the largest; and the largest first.

        With ``everyone``, and with device claims, every order of the groups follows: the first tasks get the devices that they
        name first, and decide where others may run.
        """
        feasible = {id(group): int(self.placement.feasible_nodes(group.task).sum()) for group in groups}
        for key in (lambda group: (feasible[id(group)], -group.size), lambda group: (-group.size, feasible[id(group)])):
            yield [row for group in sorted(groups, key=key) for row in group.rows[: group.needed]]
        if everyone or any(group.task.pod.spec.resource_claims for group in groups):
            for order in islice(permutations(groups), defaults.REPACK_ORDERS):
                yield [row for group in order for row in group.rows[: group.needed]]

    def _search(self, order: Sequence[int]) -> bool:
        """Place all of these tasks; where one has no node left, the one before it tries its next node."""
        budget, trials = self._budget, len(order) + defaults.REPACK_BACKTRACKS
        marks: list[int] = []
        choices: list[Iterator[int]] = []
        while len(marks) < len(order):
            task = self._task(order[len(marks)])
            if len(choices) == len(marks):
                choices.append(self._tightest(task) if self._is_allowed(task) else iter(()))
            node = next((node for node in choices[-1] if self._is_free(task, node)), None)
            if node is not None and trials and budget.trials:
                trials -= 1
                budget.trials -= 1
                marks.append(self.statement.checkpoint())
                self.statement.allocate(task.row, node)
            elif marks and trials and budget.trials:
                choices.pop()
                self.statement.rollback(marks.pop())
            else:
                return False
        return True

    def _search_by_first_node(self, order: Sequence[int]) -> bool:
        """Place all of these tasks: the first on a node of each set of nodes that it leaves to the last one, the others as usual.

        Where the last one must not be near the first, other nodes for the first do not help.
        """
        first, last, mark = self._task(order[0]), self._task(order[-1]), self.statement.checkpoint()
        if not self._is_allowed(first):
            return False
        candidates = self.placement.feasible_nodes(first)
        for node in list(self._tightest(first)):
            if not candidates[node]:
                continue
            if self._budget.trials <= 0:
                break
            self._budget.trials -= len(order)
            if self._is_free(first, node):
                self.statement.allocate(first.row, node)
                candidates &= ~self.placement.feasible_nodes(last)
                is_near = not self.placement.rejected(last, node)
                if is_near and all(self._place_as_usual(row) for row in order[1:]):
                    return True
                self.statement.rollback(mark)
                if not is_near:
                    break
        return False

    def _place_as_usual(self, row: int) -> bool:
        choice = self.placement.choose(self._task(row)) if self._is_allowed(self._task(row)) else None
        if choice is None or not choice[1]:
            return False
        self.statement.allocate(row, choice[0])
        return True

    def _is_allowed(self, task: TaskView) -> bool:
        """Return whether the queue may be allocated the request of a task."""
        return self.session.quotas.allocatable(self.queue, task, 1) is None

    def _tightest(self, task: TaskView) -> Iterator[int]:
        """Yield the feasible nodes, that on which the task leaves least free first."""
        nodes, request = np.flatnonzero(self.placement.feasible_nodes(task)), task.request.values
        dims = np.flatnonzero(request)
        rest = self.session.ledger.free(dims, nodes) - request[dims, None]
        yield from nodes[np.argsort((rest / self._scale(dims)[:, None]).sum(axis=0), kind="stable")].tolist()

    def _scale(self, dims: Rows) -> Ints:
        """The amounts of resources that count as one: those of the largest node."""
        return self.session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1)

    def _is_free(self, task: TaskView, node: int) -> bool:
        choice = self.placement.choose_on(task, node)
        return choice is not None and choice[1]
