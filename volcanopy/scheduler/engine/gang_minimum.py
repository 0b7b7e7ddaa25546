"""The pending tasks that a gang needs to start."""

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.task_status import Status


def lacking_tasks(cluster: Cluster, job: JobView) -> list[TaskView]:
    """Return the pending tasks that the job's minimum lacks, those of role minima first; none if there are too few."""
    rows = job.tasks(Status.PENDING)
    table = cluster.snapshot.tasks
    rows = rows[~table.gated[rows] & ~cluster.snapshot.shapes.best_effort[table.shape[rows]]]
    lacking = job.min_available - job.ready_count - job.best_effort_pending
    if len(rows) < lacking:
        return []
    order = np.lexsort((table.keys[rows].astype(np.str_), table.ordinal[rows])) if len(rows) else rows
    left = [cluster.task(row) for row in rows[order].tolist()]
    chosen: list[TaskView] = []
    for role in sorted(job.roles, key=lambda role: role.name):
        missing = max(role.minimum - role.ready - role.best_effort_pending, 0)
        of_role = [task for task in left if task.role == role.row][:missing]
        if len(of_role) < missing:
            return []
        chosen += of_role
    taken = {task.row for task in chosen}
    chosen += [task for task in left if task.row not in taken][: max(lacking - len(chosen), 0)]
    return chosen if len(chosen) >= lacking else []
