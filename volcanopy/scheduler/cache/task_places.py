"""The columns of a task: those that follow from where its pod is and what it does, and the others."""

import numpy as np

from volcanopy.api import core, names
from volcanopy.api.queue_gate import is_gated
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.cache.totals import count
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE, Status


def is_task(state: StateTables, pod: core.Pod) -> bool:
    """Return whether a pod counts: one on a node that has not ended, and any of a job of this scheduler."""
    if pod.spec.node_name and not pod_fields.is_over(pod):
        return True
    return pod.spec.scheduler_name in state.scheduler_names and bool(pod_fields.job_key(pod))


def set_task(state: StateTables, row: int, key: str, pod: core.Pod, job: int, shape: int) -> None:
    """Set all columns of a task, whose job is in this row."""
    columns = state.tasks.plain
    set_place(state, row, key, pod)
    columns["job"][row] = job
    columns["role"][row] = NONE if job == NONE else state.role_row(job, pod_fields.role_of(pod))
    columns["mark"][row] = NONE if job == NONE else state.marks.of(state.jobs.plain["groups"][job], pod)
    columns["shape"][row] = shape
    columns["priority"][row] = pod_fields.task_priority(pod)
    columns["created"][row] = pod_fields.seconds(pod.metadata.creation_timestamp)
    columns["runtime"][row] = pod_fields.runtime(pod)
    columns["ordinal"][row] = pod_fields.ordinal(pod.metadata.name)


def set_place(state: StateTables, row: int, key: str, pod: core.Pod) -> None:
    """Set the columns of a task that follow from where its pod is and what it does."""
    columns, backs_off = state.tasks.plain, key in state.writes.backoffs
    status, node = status_of(state, key, pod)
    nominated = pod.status.nominated_node_name
    columns["pods"][row] = pod
    columns["status"][row] = status
    columns["node"][row] = node
    columns["nominated"][row] = state.nodes.row(nominated) if nominated and status == Status.PENDING else NONE
    columns["started"][row] = pod_fields.seconds(pod.status.start_time)
    columns["gated"][row] = is_gated(pod) or backs_off
    columns["preemptable"][row] = pod_fields.flag(pod.metadata, names.PREEMPTABLE, absent=True) and not backs_off


def status_of(state: StateTables, key: str, pod: core.Pod) -> tuple[Status, int]:
    """Return the status of a pod and the row of its node.

    A pod on a node that does not exist terminates: Kubernetes deletes it, and it uses nothing that others could.
    """
    writes = state.writes
    assumed = writes.binds[key][1] if key in writes.binds else ""
    status, name = pod_fields.status_of(pod, assumed, key in writes.evictions)
    node = state.nodes.row(name) if name else NONE
    is_lost = bool(pod.spec.node_name) and ON_NODE[status] and state.nodes.plain["objects"][node] is None
    return Status.RELEASING if is_lost else status, node


def set_places_on(state: StateTables, node: int) -> None:
    """Set those columns of the tasks on a node that was created or deleted."""
    tasks = state.tasks
    for row in np.flatnonzero(tasks.plain["node"][: tasks.size] == node).tolist():
        count(state, row, -1)
        set_place(state, row, tasks.keys[row], tasks.plain["pods"][row])
        count(state, row, +1)
