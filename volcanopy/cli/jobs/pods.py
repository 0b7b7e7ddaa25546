"""The pods of a job: which they are, in the order of its tasks, and what people call how they stand."""

from datetime import datetime

from volcanopy.api import names
from volcanopy.cli.framework.kinds import labels_of, spec_of, status_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json

_ENDED = frozenset({"Succeeded", "Failed"})


def selector_of(job_name: str, task: str = "") -> str:
    """The labels of a job's pods."""
    return f"{names.JOB_NAME}={job_name}" + (f",{names.TASK_SPEC}={task}" if task else "")


def task_of(pod: Json) -> str:
    """The task that a pod is of."""
    return labels_of(pod).get(names.TASK_SPEC, "")


def index_of(pod: Json) -> int:
    """Which pod of its task it is."""
    text = labels_of(pod).get(names.TASK_INDEX, "0")
    return int(text) if text.isdecimal() else 0


def belongs(pod: Json, job: Json) -> bool:
    """Whether a pod was made for this very job, not for an earlier one of its name."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(one.get("uid") == job["metadata"]["uid"] for one in owners)


def in_order(pods: list[Json], job: Json) -> list[Json]:
    """The job's own pods, in the order of its tasks and their indexes."""
    tasks = {task["name"]: number for number, task in enumerate(spec_of(job).get("tasks") or ())}
    own = [pod for pod in pods if belongs(pod, job)]
    return sorted(own, key=lambda pod: (tasks.get(task_of(pod), len(tasks)), index_of(pod), pod["metadata"]["name"]))


async def pods_of(client: Client, job: Json, task: str = "") -> list[Json]:
    """The job's pods, or those of one of its tasks."""
    from volcanopy.cli.framework.kinds import PODS

    metadata = job["metadata"]
    listing = await client.list(PODS, metadata["namespace"], label_selector=selector_of(metadata["name"], task))
    return in_order(listing.items, job)


def state(pod: Json) -> str:
    """How a pod stands, in the one word that kubectl would use."""
    status = status_of(pod)
    found = status.get("reason") or status.get("phase") or "Pending"
    if any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in status.get("conditions") or ()
    ):
        found = "SchedulingGated"
    found = _initializing(pod) or _of_containers(pod) or found
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return found


def _initializing(pod: Json) -> str:
    """What is said while the first containers have not done their work; empty afterwards."""
    waiting = spec_of(pod).get("initContainers") or ()
    lasting = {one["name"] for one in waiting if one.get("restartPolicy") == "Always"}
    for number, one in enumerate(status_of(pod).get("initContainerStatuses") or ()):
        stands = one.get("state") or {}
        ended = stands.get("terminated")
        if (ended and ended.get("exitCode") == 0) or (one["name"] in lasting and one.get("started")):
            continue
        if ended:
            return f"Init:{_reason_of_end(ended)}"
        reason = (stands.get("waiting") or {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{number}/{len(waiting)}"
    return ""


def _of_containers(pod: Json) -> str:
    """The reason that a container gives, the first one's if several do; empty if none does."""
    found, running = "", False
    for one in reversed(status_of(pod).get("containerStatuses") or ()):
        stands = one.get("state") or {}
        if reason := (stands.get("waiting") or {}).get("reason"):
            found = reason
        elif ended := stands.get("terminated"):
            found = _reason_of_end(ended)
        elif one.get("ready") and "running" in stands:
            running = True
    return "Running" if found == "Completed" and running else found


def _reason_of_end(ended: Json) -> str:
    signal = ended.get("signal")
    fallback = f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"
    return ended.get("reason") or fallback


def readiness(pod: Json) -> str:
    """How many of its containers are ready: ``1/2``."""
    statuses = status_of(pod).get("containerStatuses") or ()
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{len(spec_of(pod).get('containers') or ())}"


def restarts(pod: Json, now: datetime) -> str:
    """How often its containers were restarted, and how long ago the last time was."""
    from volcanopy.cli.framework.durations import since

    statuses = status_of(pod).get("containerStatuses") or ()
    count = sum(one.get("restartCount", 0) for one in statuses)
    ends = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    last = max((one for one in ends if one), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def ended(pod: Json) -> bool:
    """Whether it has come to its end."""
    return status_of(pod).get("phase") in _ENDED
