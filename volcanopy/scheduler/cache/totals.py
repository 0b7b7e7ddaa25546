"""Sums over the tasks of the state, per node, job and role: for one task or for many at once."""

import numpy as np

from volcanopy.scheduler.cache.shapes import Shape
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.model import claim_tables
from volcanopy.scheduler.model.resources import Rows, sums_by
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, ON_NODE, Status

_HOLDING, _ON_NODE = HOLDING.tolist(), ON_NODE.tolist()


def count(state: StateTables, row: int, sign: int) -> None:
    """Let a task be added to the sums of its node, job and role (+1; a pending one also for others), or subtracted (-1).

    So the pods of a gang, which mostly change in the same way and at one time, are counted together.
    """
    columns = state.tasks.plain
    state.tasks.changed.add(row)
    status, job, node, role, shape = (
        columns["status"].item(row),
        columns["job"].item(row),
        columns["node"].item(row),
        columns["role"].item(row),
        columns["shape"].item(row),
    )
    key = status, job, node, role, shape, columns["gated"].item(row)
    state.due[key] = state.due.get(key, 0) + sign
    if node != NONE:
        if _ON_NODE[status] and state.shapes.all[shape].claims:
            state.claims.use(columns["pods"][row], state.nodes.keys[node], sign)
        _update_assigned_pods(state, row, node, sign)


def count_due(state: StateTables) -> None:
    """Add to the sums, or subtract, the tasks for which that is due: to be called before sums are read."""
    if state.due:
        due, state.due = state.due, {}
        for (status, job, node, role, shape, gated), tasks in due.items():
            if tasks:
                _count(state, status, job, node, role, state.shapes.all[shape], gated, tasks)


def _count(
    state: StateTables, status: int, job: int, node: int, role: int, shape: Shape, gated: bool, tasks: int
) -> None:
    """Add a number of tasks of one shape to the sums of their node, job and role, or subtract them if it is negative."""
    index = state.axis.index
    if node != NONE:
        state.nodes.changed.add(node)
        state.nodes.plain["tasks"][node] += tasks
        if _ON_NODE[status]:
            used, releasing = state.nodes.amounts["used"], state.nodes.amounts["releasing"]
            for name, units in shape.request.items():
                used[index[name], node] += tasks * units
                if status == Status.RELEASING:
                    releasing[index[name], node] += tasks * units
            state.nodes.amounts["nonzero"][0, node] += tasks * shape.nonzero[0]
            state.nodes.amounts["nonzero"][1, node] += tasks * shape.nonzero[1]
    if job == NONE:
        return
    state.jobs.changed.add(job)
    state.jobs.amounts["counts"][status, job] += tasks
    state.jobs.plain["tasks"][job] += tasks
    if role != NONE:
        state.roles.changed.add(role)
        state.roles.amounts["counts"][status, role] += tasks
    if status == Status.PENDING and shape.best_effort and not gated:
        state.jobs.plain["best_effort"][job] += tasks
        if role != NONE:
            state.roles.plain["best_effort"][role] += tasks
    column = "allocated" if _HOLDING[status] else "pending" if status == Status.PENDING else ""
    if column:
        table = state.jobs.amounts[column]
        for name, units in shape.request.items():
            table[index[name], job] += tasks * units


def _update_assigned_pods(state: StateTables, row: int, node: int, sign: int) -> None:
    """Add a task with assigned cards or cpus to the assigned pods of its node (+1), or remove it (-1)."""
    column = state.nodes.plain["assigned_pods"]
    known: claim_tables.AssignedPods = column[node] or ()
    if sign < 0:
        if any(pod.row == row for pod in known):
            column[node] = tuple(pod for pod in known if pod.row != row)
            state.assignments += 1
    elif _ON_NODE[state.tasks.plain["status"][row]]:
        key, pod = state.tasks.keys[row], state.tasks.plain["pods"][row]
        annotations = state.writes.binds[key][2] if key in state.writes.binds else {}
        assigned = claim_tables.assigned_pod(row, pod, annotations)
        if assigned is not None:
            column[node] = tuple(sorted((*known, assigned), key=lambda each: each.pod.metadata.key))
            state.assignments += 1


def count_many(state: StateTables, rows: Rows) -> None:
    """Add these tasks, which have no claims and no assigned cards or cpus, to the sums."""
    columns = state.tasks.plain
    state.tasks.changed.update(rows.tolist())
    status, job, node, role, shape = (columns[name][rows] for name in ("status", "job", "node", "role", "shape"))
    shapes = state.shapes.all
    requests = np.array([state.axis.vector(each.request) for each in shapes], dtype=np.int64).T
    nonzero = np.array([each.nonzero for each in shapes], dtype=np.int64).T
    best_effort = np.array([each.best_effort for each in shapes], dtype=np.bool_)
    has_node = node != NONE
    state.nodes.changed.update(node[has_node].tolist())
    np.add.at(state.nodes.plain["tasks"], node[has_node], 1)
    on_node = has_node & ON_NODE[status]
    releasing = on_node & (status == Status.RELEASING)
    for table, amounts, chosen in (
        (state.nodes.amounts["used"], requests, on_node),
        (state.nodes.amounts["releasing"], requests, releasing),
        (state.nodes.amounts["nonzero"], nonzero, on_node),
    ):
        table[:] += sums_by(node[chosen], amounts[:, shape[chosen]], table.shape[1])
    in_job = job != NONE
    state.jobs.changed.update(job[in_job].tolist())
    np.add.at(state.jobs.amounts["counts"], (status[in_job], job[in_job]), 1)
    np.add.at(state.jobs.plain["tasks"], job[in_job], 1)
    with_role = in_job & (role != NONE)
    state.roles.changed.update(role[with_role].tolist())
    np.add.at(state.roles.amounts["counts"], (status[with_role], role[with_role]), 1)
    pending = status == Status.PENDING
    idle_best_effort = pending & best_effort[shape] & ~columns["gated"][rows]
    np.add.at(state.jobs.plain["best_effort"], job[in_job & idle_best_effort], 1)
    np.add.at(state.roles.plain["best_effort"], role[with_role & idle_best_effort], 1)
    for name, chosen in (("allocated", in_job & HOLDING[status]), ("pending", in_job & pending)):
        table = state.jobs.amounts[name]
        table[:] += sums_by(job[chosen], requests[:, shape[chosen]], table.shape[1])
