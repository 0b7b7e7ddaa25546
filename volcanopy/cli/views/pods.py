"""Columns and filters of the pods of jobs."""

from typing import TYPE_CHECKING

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.framework.lists import Query
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, reason_column
from volcanopy.client.jobs.pods import Pod, readiness, restarts, state, task_of
from volcanopy.client.kinds import read
from volcanopy.client.objects import bare_name, find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import JOBS, PODS

if TYPE_CHECKING:
    from volcanopy.cli.framework.options import PodFilter

_NONE = "<none>"
_STYLES = {
    **dict.fromkeys(("Completed", "Succeeded"), "Completed"),
    **dict.fromkeys(("Pending", "Terminating", "ContainerCreating", "PodInitializing", "SchedulingGated"), "Pending"),
    "Running": "Running",
}


def _reason(pod: Pod) -> str:
    """Return the scheduler's message why the pod has no node."""
    messages = [condition.message for condition in pod.status.conditions if condition.type == "PodScheduled"]
    return messages[0] if messages and not pod.spec.node_name else ""


VIEW = View(
    PODS,
    Pod,
    (
        NAME,
        Column("JOB", lambda pod, _: pod.label(names.JOB_NAME)),
        Column("TASK", lambda pod, _: task_of(pod)),
        Column("READY", lambda pod, _: readiness(pod)),
        Column("STATUS", lambda pod, _: state(pod), style=lambda text: phase_style(_STYLES.get(text, "Failed"))),
        Column("RESTARTS", restarts),
        Column("NODE", lambda pod, _: pod.spec.node_name or _NONE),
        AGE,
        Column("IP", lambda pod, _: pod.status.pod_ip or _NONE, wide=True),
        Column("QUEUE", lambda pod, _: pod.label(names.QUEUE_NAME), wide=True),
        reason_column(_reason, wide=True),
    ),
)
"""``volcanopy pod list``."""


async def query(client: Client, namespace: str | None, selector: str, filters: "PodFilter") -> Query:
    """Return the pods that match the filters; raises CommandError when the job does not exist."""
    labels = [selector] if selector else []
    labels.append(f"{names.JOB_NAME}={bare_name(JOBS, filters.job)}" if filters.job else names.JOB_NAME)
    if filters.task:
        labels.append(f"{names.TASK_SPEC}={filters.task}")
    if filters.queue:
        labels.append(f"{names.QUEUE_NAME} in ({','.join(filters.queue)})")
    title = "pods of jobs"
    if filters.job and namespace is not None:
        job = read(BatchJob, await find_object(client, JOBS, namespace, filters.job))
        title = f'pods of job "{job.metadata.name}"'
    return Query(namespace, ",".join(labels), title=title)
