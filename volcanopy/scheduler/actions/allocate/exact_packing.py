"""Exact vector packing of a gang, as an integer program that HiGHS solves (the extra ``exact``).

The variables are the numbers of tasks of each group on each node where it is feasible:

1. on each node the requests of its tasks do not exceed what is free, for each resource;
2. of each group at most all tasks are placed, of each role at least its minimum, in total at least what the gang lacks.

There is no objective: any placement will do. The search has limits of work instead of time, so equal inputs give equal outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows

_BITS = 20
"""The size of the largest request in a program: HiGHS calculates with a tolerance of a millionth."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What a gang of G groups of equal tasks needs."""

    requests: Ints
    """(R, G): amounts."""
    sizes: Rows
    """(G,): the number of tasks of each group."""
    total: int
    """The least number of tasks in all."""
    minima: Sequence[tuple[Mask, int]] = ()
    """The least number of tasks of some groups (G,) together."""


def is_installed() -> bool:
    """Whether HiGHS can be imported."""
    try:
        import highspy  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True


def exact_packing(free: Ints, feasible: Mask, demand: Demand) -> Ints | None:
    """Return (G, N): how many tasks of each group to place on each node; None if there is no such placement, or none was found.

    ``free`` (R, N) are amounts, ``feasible`` (G, N) the nodes of each group. Answers are remembered: a gang that waits asks the
    same in each cycle in which nothing changed.
    """
    answer = _remembered(_Program(free, feasible, demand))
    return None if answer is None else answer.copy()


class _Program:
    """The input of one program, equal to another by its numbers."""

    def __init__(self, free: Ints, feasible: Mask, demand: Demand) -> None:
        self.free, self.feasible, self.demand = free, feasible, demand
        minima = tuple((members.tobytes(), least) for members, least in demand.minima)
        amounts = (free.tobytes(), feasible.tobytes(), demand.requests.tobytes(), demand.sizes.tobytes())
        self._key = (free.shape, feasible.shape, amounts, demand.total, minima)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._key == other._key


@lru_cache(maxsize=64)
def _remembered(program: _Program) -> Ints | None:
    free, feasible, demand = program.free, program.feasible, program.demand
    groups, nodes = np.nonzero(feasible & (demand.requests[:, :, None] <= free[:, None, :]).all(axis=0))
    if not 0 < len(groups) <= defaults.PROGRAM_VARIABLES:
        return None
    requests, room = _reduced(demand.requests, free)
    most = np.where(requests[:, groups] > 0, room[:, nodes] // np.maximum(requests[:, groups], 1), demand.sizes[groups])
    upper = np.minimum(most.min(axis=0), demand.sizes[groups])
    counts = _solve(_constraints(requests, room, groups, nodes, demand), upper)
    if counts is None:
        return None
    placed = np.zeros(feasible.shape, dtype=np.int64)
    placed[groups, nodes] = counts
    fits = (demand.requests @ placed <= free).all() and (placed.sum(axis=1) <= demand.sizes).all()
    return placed if fits else None


@dataclass(frozen=True, eq=False)
class _Constraints:
    """Rows of a program: bounds, and coefficients by row and column."""

    lower: Floats
    upper: Floats
    rows: Rows
    columns: Rows
    values: Floats


def _reduced(requests: Ints, free: Ints) -> tuple[Ints, Ints]:
    """Return amounts in larger units: requests, rounded up, are at most 2 ** _BITS, free resources are rounded down.

    The unit is the greatest common divisor of the requests of a resource, which rounds no request, times a power of two.
    """
    divisor = np.maximum(np.gcd.reduce(requests, axis=1, initial=0), 1)
    bits = np.array([int(most).bit_length() for most in requests.max(axis=1) // divisor], dtype=np.int64)
    unit = (divisor << np.maximum(bits - _BITS, 0))[:, None]
    return -(-requests // unit), np.maximum(free, 0) // unit


def _constraints(requests: Ints, free: Ints, groups: Rows, nodes: Rows, demand: Demand) -> _Constraints:
    """Return the rows of the program whose column V is the number of tasks of ``groups[V]`` on ``nodes[V]``."""
    used, row_of_node = np.unique(nodes, return_inverse=True)
    parts = list[_Constraints]()
    for request, room in zip(requests, free, strict=True):
        columns = np.flatnonzero(request[groups])
        values = request[groups[columns]].astype(float)
        parts.append(
            _Constraints(np.full(len(used), -np.inf), room[used].astype(float), row_of_node[columns], columns, values)
        )
    every = np.arange(len(groups))
    sizes = demand.sizes.astype(float)
    parts.append(_Constraints(np.zeros(len(sizes)), sizes, groups, every, np.ones(len(groups))))
    for members, least in [(np.ones(len(sizes), dtype=bool), demand.total), *demand.minima]:
        columns = np.flatnonzero(members[groups])
        rows = np.zeros(len(columns), dtype=np.intp)
        parts.append(_Constraints(np.array([float(least)]), np.array([np.inf]), rows, columns, np.ones(len(columns))))
    first = np.cumsum([0, *(len(part.lower) for part in parts)])
    return _Constraints(
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.rows + start for part, start in zip(parts, first, strict=False)]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _solve(constraints: _Constraints, upper: Ints) -> Ints | None:
    """Return whole numbers from 0 to ``upper`` that satisfy the constraints; None without any, or at a limit of work."""
    import highspy  # noqa: PLC0415 - an extra

    order = np.lexsort((constraints.columns, constraints.rows))
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(upper), len(constraints.lower)
    program.col_cost_, program.col_lower_ = np.zeros(len(upper)), np.zeros(len(upper))
    program.col_upper_ = upper.astype(float)
    program.row_lower_, program.row_upper_ = constraints.lower, constraints.upper
    program.integrality_ = [highspy.HighsVarType.kInteger] * len(upper)
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.num_col_, matrix.num_row_ = program.num_col_, program.num_row_
    matrix.start_ = np.searchsorted(constraints.rows[order], np.arange(program.num_row_ + 1)).astype(np.int32)
    matrix.index_ = constraints.columns[order].astype(np.int32)
    matrix.value_ = constraints.values[order]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("parallel", "off"),
        ("random_seed", 0),
        ("mip_max_nodes", defaults.PROGRAM_SEARCH_NODES),
        ("simplex_iteration_limit", defaults.PROGRAM_ITERATIONS),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(program)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    counts: Ints = np.rint(solver.getSolution().col_value).astype(np.int64)
    return counts
