"""Sums over the tasks of the state, per node, job and role."""

from volcanopy.scheduler.cache.shapes import Shape
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.model import claim_tables
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, ON_NODE, Status

_HOLDING, _ON_NODE = HOLDING.tolist(), ON_NODE.tolist()


def count(state: StateTables, row: int, sign: int) -> None:
    """Let a task be added to the sums of its node, job and role (+1), or be subtracted (-1), by :func:`count_due`.

    So the pods of a gang, and those of a node, which mostly change in the same way and at one time, are counted together.
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
    if job != NONE:
        of_job = status, job, role, shape, columns["gated"].item(row)
        state.due_of_jobs[of_job] = state.due_of_jobs.get(of_job, 0) + sign
    if node != NONE:
        on_node = status, node, shape
        state.due_on_nodes[on_node] = state.due_on_nodes.get(on_node, 0) + sign
        if _ON_NODE[status] and state.shapes.all[shape].claims:
            state.claims.use(columns["pods"][row], state.nodes.keys[node], sign)
        _update_assigned_pods(state, row, node, sign)


def count_due(state: StateTables) -> None:
    """Add to the sums, or subtract, the tasks for which that is due: to be called before sums are read."""
    for (status, node, shape), tasks in state.due_on_nodes.items():
        if tasks:
            _count_on_node(state, status, node, state.shapes.all[shape], tasks)
    for (status, job, role, shape, gated), tasks in state.due_of_jobs.items():
        if tasks:
            _count_of_job(state, status, job, role, state.shapes.all[shape], gated, tasks)
    state.due_on_nodes.clear()
    state.due_of_jobs.clear()


def _count_on_node(state: StateTables, status: int, node: int, shape: Shape, tasks: int) -> None:
    """Add a number of tasks of one shape to the sums of their node, or subtract them if it is negative."""
    index = state.axis.index
    state.nodes.changed.add(node)
    state.nodes.plain["tasks"][node] += tasks
    if not _ON_NODE[status]:
        return
    used, releasing = state.nodes.amounts["used"], state.nodes.amounts["releasing"]
    for name, units in shape.request.items():
        used[index[name], node] += tasks * units
        if status == Status.RELEASING:
            releasing[index[name], node] += tasks * units
    state.nodes.counts["nonzero"][0, node] += tasks * shape.nonzero[0]
    state.nodes.counts["nonzero"][1, node] += tasks * shape.nonzero[1]


def _count_of_job(state: StateTables, status: int, job: int, role: int, shape: Shape, gated: bool, tasks: int) -> None:
    """Add a number of tasks of one shape to the sums of their job and role, or subtract them if it is negative."""
    state.jobs.changed.add(job)
    state.jobs.counts["counts"][status, job] += tasks
    state.jobs.plain["tasks"][job] += tasks
    if role != NONE:
        state.roles.changed.add(role)
        state.roles.counts["counts"][status, role] += tasks
    if status == Status.PENDING and shape.best_effort and not gated:
        state.jobs.plain["best_effort"][job] += tasks
        if role != NONE:
            state.roles.plain["best_effort"][role] += tasks
    column = "allocated" if _HOLDING[status] else "pending" if status == Status.PENDING else ""
    if column:
        table = state.jobs.amounts[column]
        for name, units in shape.request.items():
            table[state.axis.index[name], job] += tasks * units


def _update_assigned_pods(state: StateTables, row: int, node: int, sign: int) -> None:
    """Add a task with assigned cards or cpus to the assigned pods of its node (+1), or remove it (-1)."""
    column = state.nodes.plain["assigned_pods"]
    known: claim_tables.AssignedPods = column[node] or ()
    if sign < 0:
        if known:
            column[node] = claim_tables.without_assigned(known, row)
            state.assignments += 1
    elif _ON_NODE[state.tasks.plain["status"][row]]:
        key, pod = state.tasks.keys[row], state.tasks.plain["pods"][row]
        assigned = claim_tables.assigned_pod(row, pod, state.writes.annotations.get(key, {}))
        if assigned is not None:
            column[node] = claim_tables.with_assigned(known, assigned)
            state.assignments += 1
