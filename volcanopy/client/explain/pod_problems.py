"""Problems of pods: unscheduled, unable to start, crashing, failed or terminating, grouped by state and message."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from volcanopy.api import container_states
from volcanopy.api.container_states import repeated_failure, termination, waiting_problem
from volcanopy.api.quantity import counted
from volcanopy.client.explain.report import PodProblem, listed, single_line
from volcanopy.client.jobs.pods import ContainerStatus, Pod, PodStatus, task_of

UNSCHEDULED, STUCK, CRASHING, FAILED, TERMINATING, STARTING = (
    "unscheduled",
    "cannot start",
    "crashing",
    "failed",
    "terminating",
    "starting",
)
"""States of pods that do not run as they should."""
_STARTS = STARTING, ""
"""The problem of a pod on a node that reports nothing unusual."""
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_ORDER = (STUCK, CRASHING, FAILED, UNSCHEDULED, STARTING, TERMINATING)


def pod_problems(pods: Iterable[Pod], warnings: Mapping[str, str] = MappingProxyType({})) -> tuple[PodProblem, ...]:
    """Return the problems of these pods, the most serious first; pods that run or have succeeded have none.

    ``warnings`` has the warning in the latest event of pods that are starting, by name.
    """
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        problem = _problem(pod)
        if problem == _STARTS and (warning := warnings.get(pod.metadata.name)):
            problem = STUCK, warning
        if problem is not None:
            groups.setdefault(problem, []).append(pod)
    problems = []
    for (state, message), members in groups.items():
        tasks = {task_of(pod) for pod in members}
        task = tasks.pop() if len(tasks) == 1 else ""
        problems.append(PodProblem(state, message, tuple(pod.metadata.name for pod in members), task))
    return tuple(sorted(problems, key=lambda problem: _ORDER.index(problem.state)))


def is_starting(pod: Pod) -> bool:
    """Whether a pod on a node has not started, and its status has no reason."""
    return _problem(pod) == _STARTS


def startup_problem(problems: Sequence[PodProblem]) -> str:
    """Return what keeps scheduled pods from running, as a clause; empty if nothing does."""
    problem = next((problem for problem in problems if problem.state in {STUCK, CRASHING}), None)
    if problem is None:
        return ""
    number = len(problem.names)
    pods = f'pod "{problem.names[0]}"' if number == 1 else f"{counted(number, 'pod')} ({listed(problem.names)})"
    return f"{pods} {problem.state}: {problem.message}"


def _problem(pod: Pod) -> tuple[str, str] | None:
    """Return state and message of a pod; None if it runs or has succeeded."""
    status = pod.status
    if status.phase == "Succeeded":
        return None
    finalizers = ", ".join(pod.metadata.finalizers) if pod.metadata.deletion_timestamp is not None else ""
    if status.phase == "Failed" and not finalizers:
        return FAILED, _failure(pod)
    if pod.metadata.deletion_timestamp is not None:
        return TERMINATING, f"waits for finalizer {finalizers}" if finalizers else ""
    if not pod.spec.node_name:
        return UNSCHEDULED, _unscheduled(status)
    return _container_problem(status) or (_STARTS if status.phase == "Pending" else None)


def _unscheduled(status: PodStatus) -> str:
    messages = (
        condition.message
        for condition in status.conditions
        if condition.type == "PodScheduled" and condition.status == "False"
    )
    return single_line(next(messages, ""))


def _container_problem(status: PodStatus) -> tuple[str, str] | None:
    for container in _containers(status):
        end = repeated_failure(container.restart_count, container.state, container.last_state)
        if end is not None:
            return CRASHING, f'container "{container.name}" {_exit(end)}'
        waiting = container.state.waiting
        problem = waiting_problem(waiting.reason, waiting.message) if waiting is not None else ""
        if waiting is None or not problem:
            continue
        if waiting.reason == "CrashLoopBackOff":
            return CRASHING, waiting.reason
        if waiting.reason in _IMAGE:
            return STUCK, f'cannot pull image "{container.image}": {problem}'
        return STUCK, f'container "{container.name}": {problem}'
    return None


def _failure(pod: Pod) -> str:
    status, sidecars = pod.status, pod.spec.sidecars
    for container in _containers(status):
        terminated = container.state.terminated
        if terminated is not None and terminated.exit_code and container.name not in sidecars:
            return f'container "{container.name}" {_exit(terminated)}'
    return single_line(": ".join(filter(None, (status.reason, status.message))))


def _exit(terminated: container_states.Terminated) -> str:
    return f"exited with code {termination(terminated.exit_code, terminated.reason, terminated.message)}"


def _containers(status: PodStatus) -> tuple[ContainerStatus, ...]:
    return (*status.init_container_statuses, *status.container_statuses)
