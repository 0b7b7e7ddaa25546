"""``volcanopy pod list``: the pods of jobs, all or those of a job, a task or a queue."""

from dataclasses import dataclass
from datetime import datetime

from volcanopy.api import names
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.kinds import JOBS, PODS, key_of, labels_of, spec_of, status_of
from volcanopy.cli.framework.lists import Wanted, show_list
from volcanopy.cli.framework.objects import bare_name, find_object
from volcanopy.cli.framework.options import Cluster, Scope, Show
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style
from volcanopy.cli.jobs.pods import readiness, restarts, state, task_of
from volcanopy.kube.client.kinds import Json

_UNPLACED = "<none>"


def _job(pod: Json, _: datetime) -> str:
    return labels_of(pod).get(names.JOB_NAME, "")


def _why(pod: Json, _: datetime) -> str:
    """Why a pod has no node, in the scheduler's words."""
    if spec_of(pod).get("nodeName"):
        return ""
    conditions = status_of(pod).get("conditions") or ()
    said = next((one.get("message") for one in conditions if one.get("type") == "PodScheduled"), "")
    return " ".join((said or "").split())


def _style(word: str) -> str:
    if word in {"Completed", "Succeeded"}:
        return phase_style("Completed")
    if word in {"Pending", "Terminating", "ContainerCreating", "PodInitializing", "SchedulingGated"}:
        return phase_style("Pending")
    return phase_style("Running") if word == "Running" else phase_style("Failed")


VIEW = View(
    PODS,
    (
        NAME,
        Column("JOB", _job),
        Column("TASK", lambda pod, _: task_of(pod)),
        Column("READY", lambda pod, _: readiness(pod)),
        Column("STATUS", lambda pod, _: state(pod), style=_style),
        Column("RESTARTS", restarts),
        Column("NODE", lambda pod, _: spec_of(pod).get("nodeName") or _UNPLACED),
        AGE,
        Column("IP", lambda pod, _: status_of(pod).get("podIP") or _UNPLACED, wide=True),
        Column("QUEUE", lambda pod, _: labels_of(pod).get(names.QUEUE_NAME, ""), wide=True),
        Column("WHY", _why, wide=True, sentence=True),
    ),
)
"""``volcanopy pod list``."""


@dataclass(frozen=True)
class Which:
    """Which pods: of one job or of all, of a task, of a queue, of a group."""

    job: str = ""
    task: str = ""
    queue: str = ""
    phase: str = ""


async def list_pods(cluster: Cluster, scope: Scope, show: Show, which: Which) -> None:
    """Print the pods; raises Stop when the one job that is named is not there."""
    labels = [scope.selector] if scope.selector else []
    labels.append(f"{names.JOB_NAME}={bare_name(JOBS, which.job)}" if which.job else names.JOB_NAME)
    if which.task:
        labels.append(f"{names.TASK_SPEC}={which.task}")
    if which.queue:
        labels.append(f"{names.QUEUE_NAME}={which.queue}")
    wanted_phase = _phase(which.phase)

    def keep(pod: Json) -> bool:
        return not wanted_phase or status_of(pod).get("phase", "Pending") == wanted_phase

    async with cluster.client() as client:
        namespace = scope.of(client)
        if which.job and namespace is not None:
            which_job = await find_object(client, JOBS, namespace, which.job)
            what = f"pods of job {key_of(which_job).name}"
        else:
            what = "pods of jobs"
        await show_list(client, VIEW, Wanted(namespace, ",".join(labels), keep=keep, what=what), show)


def _phase(text: str) -> str:
    phases = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    if not text:
        return ""
    known = next((one for one in phases if one.lower() == text.lower()), None)
    if known is None:
        raise CommandError(f"--phase: {text!r} is no phase of a pod: there are {', '.join(phases)}", 2)
    return known
