"""The sums that the state keeps of its tasks, per node, job and role: one task at a time, or many at once."""

from typing import TYPE_CHECKING

import numpy as np

from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, ON_NODE, Status

if TYPE_CHECKING:
    from volcanopy.scheduler.cache.cluster_cache import State

_HOLDING, _ON_NODE = HOLDING.tolist(), ON_NODE.tolist()


def count(state: "State", row: int, sign: int) -> None:
    """Add a task to, or take it from, the sums of its node, its job and its role."""
    columns = state.tasks.plain
    status, job, node = int(columns["status"][row]), int(columns["job"][row]), int(columns["node"][row])
    shape = state.shapes.all[columns["shape"][row]]
    where = state.axis.index
    if node != NONE and _ON_NODE[status]:
        used, leaving = state.nodes.amounts["used"], state.nodes.amounts["releasing"]
        for name, units in shape.request.items():
            used[where[name], node] += sign * units
            if status == Status.RELEASING:
                leaving[where[name], node] += sign * units
        state.nodes.counts["nonzero"][0, node] += sign * shape.nonzero[0]
        state.nodes.counts["nonzero"][1, node] += sign * shape.nonzero[1]
        if shape.claims:
            state.stock.use(columns["pods"][row], state.nodes.plain["names"][node], sign)
    if node != NONE:
        state.nodes.plain["tasks"][node] += sign
        state.hold(row, node, sign)
    if job == NONE:
        return
    state.jobs.counts["counts"][status, job] += sign
    state.jobs.plain["tasks"][job] += sign
    role = int(columns["role"][row])
    if role != NONE:
        state.roles.counts["counts"][status, role] += sign
    if status == Status.PENDING and shape.best_effort:
        state.jobs.plain["best_effort"][job] += sign
        if role != NONE:
            state.roles.plain["best_effort"][role] += sign
    sums = "allocated" if _HOLDING[status] else "pending" if status == Status.PENDING else ""
    if sums:
        table = state.jobs.amounts[sums]
        for name, units in shape.request.items():
            table[where[name], job] += sign * units


def count_many(state: "State", rows: Rows) -> None:
    """As :func:`count` with +1 of each of these tasks, which claim nothing and hold nothing particular of their nodes."""
    columns = state.tasks.plain
    status, job, node, role, shape = (columns[name][rows] for name in ("status", "job", "node", "role", "shape"))
    shapes = state.shapes.all
    requests = np.array([state.axis.vector(one.request) for one in shapes], dtype=np.int64).T
    nonzero = np.array([one.nonzero for one in shapes], dtype=np.int64).T
    best_effort = np.array([one.best_effort for one in shapes], dtype=np.bool_)
    here = node != NONE
    np.add.at(state.nodes.plain["tasks"], node[here], 1)
    on_node = here & ON_NODE[status]
    leaving = on_node & (status == Status.RELEASING)
    for table, kinds, chosen in (
        (state.nodes.amounts["used"], requests, on_node),
        (state.nodes.amounts["releasing"], requests, leaving),
        (state.nodes.counts["nonzero"], nonzero, on_node),
    ):
        for column, units in zip(table, kinds, strict=True):
            np.add.at(column, node[chosen], units[shape[chosen]])
    ours = job != NONE
    np.add.at(state.jobs.counts["counts"], (status[ours], job[ours]), 1)
    np.add.at(state.jobs.plain["tasks"], job[ours], 1)
    with_role = ours & (role != NONE)
    np.add.at(state.roles.counts["counts"], (status[with_role], role[with_role]), 1)
    pending = status == Status.PENDING
    idle = pending & best_effort[shape]
    np.add.at(state.jobs.plain["best_effort"], job[ours & idle], 1)
    np.add.at(state.roles.plain["best_effort"], role[with_role & idle], 1)
    for name, chosen in (("allocated", ours & HOLDING[status]), ("pending", ours & pending)):
        for column, units in zip(state.jobs.amounts[name], requests, strict=True):
            np.add.at(column, job[chosen], units[shape[chosen]])
