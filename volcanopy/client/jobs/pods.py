"""Pods of jobs: their read model, their order, and their state as kubectl prints it."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from volcanopy.api import container_states, core, names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.read_model import ReadModel
from volcanopy.client.durations import since
from volcanopy.client.kinds import readable
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import PODS


class Running(ReadModel, frozen=True, kw_only=True, gc=False):
    """State of a running container."""


class Terminated(container_states.Terminated, frozen=True, kw_only=True, gc=False):
    """State of a container that has ended."""

    signal: int = 0

    @property
    def cause(self) -> str:
        """The reason, or the signal or exit code where there is none."""
        return self.reason or (f"Signal:{self.signal}" if self.signal else f"ExitCode:{self.exit_code}")


class ContainerState(container_states.ContainerState, frozen=True, kw_only=True, gc=False):
    """State of a container; one of the fields is set."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(container_states.ContainerStatus, frozen=True, kw_only=True, gc=False):
    """Observed status of a container."""

    image: str = ""
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(core.PodStatus, frozen=True, kw_only=True, gc=False):
    """Observed status of a pod."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(core.Pod, frozen=True, kw_only=True, gc=False):
    """A pod with the states of its containers."""

    status: PodStatus = PodStatus()

    def label(self, name: str) -> str:
        """Return the value of a label, empty if the pod does not have it."""
        return self.metadata.labels.get(name, "")


def selector_of(job_name: str, task: str = "") -> str:
    """Return the label selector of a job's pods."""
    return f"{names.JOB_NAME}={job_name}" + (f",{names.TASK_SPEC}={task}" if task else "")


def task_of(pod: Pod) -> str:
    """Return the name of the pod's task."""
    return pod.label(names.TASK_SPEC)


def index_of(pod: Pod) -> int:
    """Return the index of the pod within its task."""
    text = pod.label(names.TASK_INDEX)
    return int(text) if text.isdecimal() else 0


def pods_in_order(bodies: Iterable[Json], job: BatchJob) -> list[Pod]:
    """Return the pods that this job owns, not an earlier one of its name, in the order of tasks and indexes."""
    tasks = {task.name: number for number, task in enumerate(job.spec.tasks)}
    pods = readable(Pod, bodies)
    job_pods = [pod for pod in pods if any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references)]
    return sorted(job_pods, key=lambda pod: (tasks.get(task_of(pod), len(tasks)), index_of(pod), pod.metadata.name))


async def pods_of(client: Client, job: BatchJob, task: str = "") -> list[Pod]:
    """Return the pods of a job of the API that the client is a view of, or those of one of its tasks."""
    metadata = job.metadata
    listing = await client.list(PODS, metadata.namespace, label_selector=selector_of(metadata.name, task))
    return pods_in_order(listing.items, job)


def state(pod: Pod) -> str:
    """Return the state of a pod in one word, as kubectl prints it."""
    status = pod.status
    if pod.metadata.deletion_timestamp:
        return "Unknown" if status.reason == "NodeLost" else "Terminating"
    gated = any(
        condition.type == "PodScheduled" and condition.reason == "SchedulingGated" for condition in status.conditions
    )
    default = "SchedulingGated" if gated else status.reason or status.phase or "Pending"
    initial = _init_state(pod)
    if initial and not any(
        condition.type == "Initialized" and condition.status == "True" for condition in status.conditions
    ):
        return initial
    return _container_state(pod) or initial or default


def _init_state(pod: Pod) -> str:
    """Return the state that init containers give the pod; empty when they are done."""
    containers, sidecars = pod.spec.init_containers, pod.spec.sidecars
    for number, status in enumerate(pod.status.init_container_statuses):
        waiting, terminated = status.state.waiting, status.state.terminated
        if (terminated and terminated.exit_code == 0) or (status.name in sidecars and status.started):
            continue
        if terminated:
            return f"Init:{terminated.cause}"
        if waiting and waiting.reason not in {"", "PodInitializing"}:
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{len(containers)}"
    return ""


def _container_state(pod: Pod) -> str:
    """Return the reason of a container's state, the first one's if there are several; empty if there is none."""
    result, running = "", False
    for status in reversed(pod.status.container_statuses):
        if status.state.waiting and status.state.waiting.reason:
            result = status.state.waiting.reason
        elif status.state.terminated:
            result = status.state.terminated.cause
        elif status.ready and status.state.running is not None:
            running = True
    return "Running" if result == "Completed" and running else result


def readiness(pod: Pod) -> str:
    """Return the number of ready containers, sidecars included: ``1/2``."""
    total = len(pod.spec.containers) + len(pod.spec.sidecars)
    return f"{sum(status.ready for status in _lasting(pod))}/{total}"


def restarts(pod: Pod, now: datetime) -> str:
    """Return the number of container restarts, with the time since the last one."""
    statuses = _lasting(pod)
    count = sum(status.restart_count for status in statuses)
    ends = [status.last_state.terminated.finished_at for status in statuses if status.last_state.terminated]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _lasting(pod: Pod) -> list[ContainerStatus]:
    """Return the containers that run as long as the pod does: the sidecars and the others that are no init containers."""
    beside = [status for status in pod.status.init_container_statuses if status.name in pod.spec.sidecars]
    return [*beside, *pod.status.container_statuses]


def pod_rows(pods: Sequence[Pod], now: datetime) -> list[tuple[str, ...]]:
    """Return the rows of a table of pods: name, task, ready, status, restarts, node, age."""
    return [
        (
            pod.metadata.name,
            task_of(pod) or "-",
            readiness(pod),
            state(pod),
            restarts(pod, now),
            pod.spec.node_name or "-",
            since(pod.metadata.creation_timestamp, now),
        )
        for pod in pods
    ]
