"""States of containers, and the sentences that statuses of jobs and commands share: why they do not start, how they ended."""

from datetime import datetime

from msgspec import field

from volcanopy.api.read_model import Quantities, ReadModel

POD_START_FAILED = "PodStartFailed"
"""The reason of a job that has pods which their nodes cannot start."""
POD_FAILS_REPEATEDLY = "PodFailsRepeatedly"
"""The reason of a job that has pods whose containers failed, were restarted on the spot and do not run."""
AWAITS_ADMISSION = "waiting for admission to queue"
"""In the message of a pending job that the scheduler has not explained."""
SCALED_TO_ZERO = "ScaledToZero"
"""The reason of a running job whose tasks have no replicas."""
FAILED_SYNC = "FailedSync"
"""The reason of a job some of whose objects cannot be created."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Reasons of containers that start as usual."""
_PULL_CAUSE = ": ErrImagePull: "
"""In the message of an ImagePullBackOff: what follows is the error of the last pull."""
_ORDINARY_ENDS = frozenset({"Completed", "Error", ""})
_LONGEST = 512
"""Characters of a message, which may be a whole log (terminationMessagePolicy)."""


class ResourceRequirements(ReadModel, frozen=True, kw_only=True, gc=False):
    """Requests and limits."""

    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class Waiting(ReadModel, frozen=True, kw_only=True, gc=False):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class Terminated(ReadModel, frozen=True, kw_only=True, gc=False):
    """Termination of a container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class ContainerState(ReadModel, frozen=True, kw_only=True, gc=False):
    """State of a container, which runs if neither field is set."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    allocated_resources: Quantities = field(default_factory=dict)
    resources: ResourceRequirements | None = None


def waiting_problem(reason: str, message: str) -> str:
    """Return why a waiting container does not start; empty while it starts as usual.

    A failed pull has one text, although kubelets alternate between ErrImagePull and ImagePullBackOff.
    """
    if reason in _STARTING:
        return ""
    _, separator, cause = message.partition(_PULL_CAUSE)
    return _joined("ErrImagePull", cause) if separator else _joined(reason, message)


def repeated_failure(restarts: int, state: ContainerState, last_state: ContainerState) -> Terminated | None:
    """Return the last failure of a container that was restarted on the spot and does not run now; None if there is none.

    Between two attempts kubelets alternate between a terminated container and one that waits (CrashLoopBackOff).
    """
    end = last_state.terminated if state.waiting is not None else state.terminated if restarts else None
    return end if end is not None and end.exit_code else None


def termination(exit_code: int, reason: str, message: str) -> str:
    """Return how a container ended: its exit code, with a reason and a message that add to it."""
    code = f"{exit_code} ({reason})" if reason not in _ORDINARY_ENDS else str(exit_code)
    return _joined(code, message)


def _joined(head: str, message: str) -> str:
    text = " ".join(message.split())
    text = f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text
    return f"{head}: {text}" if text else head
