"""What can happen to a job and what can be done with it: events, actions, and the policies that join them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from volcanopy.api.model import Duration, Int32, Model, Rule


class Action(StrEnum):
    """What can be done with a job."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"


class Event(StrEnum):
    """What can happen to a job that a policy may react to."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"


_EVENTS = "[" + ", ".join(f"'{event}'" for event in Event) + "]"
_HAS_EVENT = "(has(p.event) && p.event == e) || (has(p.events) && e in p.events)"


class LifecyclePolicy(Model):
    """What to do when something happens to a pod, a task or the job: on events, or on an exit code."""

    action: Action
    """What to do."""
    event: Event | None = None
    """The event to react to; `*` is every event except PodPending and JobUpdated."""
    events: list[Event] = Field(default_factory=list, max_length=16)
    """The events to react to."""
    exit_code: Int32 | None = None
    """The exit code of a failed container to react to; 0 is no failure."""
    timeout: Duration | None = None
    """How long to wait before acting, such as 90s or 10m; nothing is done if the cause is gone by then."""

    rules = (
        Rule(
            "has(self.exitCode) != (has(self.event) || (has(self.events) && self.events.size() > 0))",
            "a policy reacts to events or to an exit code: give either event (or events), or exitCode",
        ),
        Rule("!has(self.exitCode) || self.exitCode != 0", "0 is no failure: give another exit code", ".exitCode"),
        Rule(
            "has(self.timeout) || !((has(self.event) && self.event == 'PodPending')"
            " || (has(self.events) && 'PodPending' in self.events))",
            "PodPending needs a timeout: every pod is pending at first",
        ),
        Rule(
            "!((has(self.event) && self.event == '*') || (has(self.events) && '*' in self.events))"
            " || ((!has(self.event) || self.event == '*') && (!has(self.events) || self.events.all(e, e == '*')))",
            "`*` already means every event: leave the other events out",
        ),
    )

    @property
    def all_events(self) -> frozenset[Event]:
        """Every event that this policy names."""
        return frozenset(self.events) | ({self.event} if self.event else frozenset())


def _unique(what: str, listing: str) -> Rule:
    return Rule(listing, f"{what} may stand in one policy of a list only: the first would win")


Policies = Annotated[
    list[LifecyclePolicy],
    Field(
        max_length=32,
        json_schema_extra={
            "x-kubernetes-list-type": "atomic",
            "x-kubernetes-validations": [
                _unique("an event", f"{_EVENTS}.all(e, self.filter(p, {_HAS_EVENT}).size() <= 1)").schema(),
                _unique(
                    "an exit code",
                    "self.all(p, !has(p.exitCode) || self.exists_one(q, has(q.exitCode) && q.exitCode == p.exitCode))",
                ).schema(),
                Rule(
                    "!self.exists(p, (has(p.event) && p.event == '*') || (has(p.events) && '*' in p.events))"
                    " || self.filter(p, has(p.event) || (has(p.events) && p.events.size() > 0)).size() == 1",
                    "`*` already means every event: leave the policies for other events out",
                ).schema(),
            ],
        },
    ),
]
