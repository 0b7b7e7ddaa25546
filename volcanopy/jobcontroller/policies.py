"""From what happened to what is to be done: the lifecycle policies of a job.

The task's policies are asked before the job's, and in each list the first that fits decides. `*` fits everything but
PodPending (every pod is pending at first: it needs a policy of its own, with a timeout) and JobUpdated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.lifecycle import Action, Event, LifecyclePolicy

_NOT_ANY = frozenset({Event.POD_PENDING, Event.JOB_UPDATED})


@dataclass(frozen=True)
class Happening:
    """Something that happened to a job: to a pod, to a task, or to the whole of it.

    ``retry`` is the try that the pod belonged to, ``says`` the sentence for people. With ``old`` it happened before the
    job was last stopped: only what ends the job may still follow from it.
    """

    event: Event
    task: str = ""
    partition: str = ""
    pod: str = ""
    uid: str = ""
    exit_codes: tuple[int, ...] = ()
    retry: int = 0
    says: str = ""
    old: bool = False


@dataclass(frozen=True)
class Response:
    """What a policy wants done, and after how long."""

    action: Action
    delay: timedelta = timedelta(0)


def respond(spec: BatchJobSpec, happening: Happening) -> Response | None:
    """What the policies of the task, else of the job, say to something that happened; None if they say nothing."""
    task = spec.task(happening.task) if happening.task else None
    for policies in (task.policies if task else (), spec.policies):
        if policy := _first(policies, happening):
            return Response(policy.action, policy.timeout or timedelta(0))
    return None


def _first(policies: Iterable[LifecyclePolicy], happening: Happening) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _fits(policy, happening)), None)


def _fits(policy: LifecyclePolicy, happening: Happening) -> bool:
    if policy.exit_code is not None and policy.exit_code in happening.exit_codes:
        return True
    if happening.event is Event.POD_PENDING and not policy.timeout:
        return False
    events = policy.all_events
    return happening.event in events or (Event.ANY in events and happening.event not in _NOT_ANY)
