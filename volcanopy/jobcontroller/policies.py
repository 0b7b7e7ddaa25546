"""Lifecycle policies of a job: from events to actions.

The policies of the task precede those of the job, and the first match in a list applies. `*` matches every event except
PodPending (every pod is pending at first: it needs its own policy with a timeout) and JobUpdated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.lifecycle import Action, Event, LifecyclePolicy

_NOT_ANY = frozenset({Event.POD_PENDING, Event.JOB_UPDATED})


@dataclass(frozen=True)
class JobEvent:
    """An event of a job, a task or a pod.

    ``retry`` is the retry count of the pod, ``message`` a human-readable message. With ``old`` it occurred before the
    job was last stopped, so that only actions that end the job may follow.
    """

    event: Event
    task: str = ""
    partition: str = ""
    pod: str = ""
    uid: str = ""
    exit_codes: tuple[int, ...] = ()
    retry: int = 0
    message: str = ""
    old: bool = False


@dataclass(frozen=True)
class Response:
    """Action of a policy, and its delay."""

    action: Action
    delay: timedelta = timedelta(0)


def respond(spec: BatchJobSpec, job_event: JobEvent) -> Response | None:
    """Return the response of the first matching policy of the task, else of the job, if there is one."""
    task = spec.task(job_event.task) if job_event.task else None
    for policies in (task.policies if task else (), spec.policies):
        if policy := _first(policies, job_event):
            return Response(policy.action, policy.timeout or timedelta(0))
    return None


def _first(policies: Iterable[LifecyclePolicy], job_event: JobEvent) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _fits(policy, job_event)), None)


def _fits(policy: LifecyclePolicy, job_event: JobEvent) -> bool:
    if policy.exit_code is not None and policy.exit_code in job_event.exit_codes:
        return True
    if job_event.event is Event.POD_PENDING and not policy.timeout:
        return False
    events = policy.all_events
    return job_event.event in events or (Event.ANY in events and job_event.event not in _NOT_ANY)
