"""Decision about a job: the reactions to Commands, events and delayed actions, recorded in a new status.

The status that records a reaction also acknowledges its cause: a Command by its UID, a failed pod by a new version or retry,
a lost pod by no longer being counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType

from volcanopy.api.batch import BatchJob, BatchJobStatus, DelayedAction, Phase, Restart
from volcanopy.api.core import PodGroup
from volcanopy.api.lifecycle import Action, Command, Event
from volcanopy.jobcontroller.accounting import latest_cause
from volcanopy.jobcontroller.deadline import without_start
from volcanopy.jobcontroller.lifecycle_events import JobEvent, job_events, respond
from volcanopy.jobcontroller.observed import Disruption, JobPod, RestartIndex
from volcanopy.jobcontroller.phases import LIVE, TRANSITIONS, Stop
from volcanopy.jobcontroller.plan import RecordEvent
from volcanopy.jobcontroller.restart_pause import with_pause, without_pause
from volcanopy.jobcontroller.status import Move, entered, with_reason

_ENDING = frozenset({Action.COMPLETE_JOB, Action.TERMINATE_JOB})
COMMANDED = "CommandIssued"
"""The reason of actions that a Command requests."""
SUSPENDED = "Suspended"
"""The reason of a job that its spec suspends."""
_SUBJECT = {Action.RESTART_TASK: "task", Action.RESTART_POD: "pod", Action.RESTART_PARTITION: "partition"}


class Decision:
    """The status of a job while reactions are decided, and the events to record."""

    def __init__(
        self,
        job: BatchJob,
        members: Sequence[JobPod],
        pod_group: PodGroup | None,
        now: datetime,
        disruptions: Sequence[Disruption] = (),
        not_ready: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.job = job
        self._restarts = RestartIndex(job.status.restarts)
        # A restart in progress has already replaced those that are gone.
        self.members = [member for member in members if not (member.removed and _is_replaced(member, self._restarts))]
        self.now = now
        self.events: list[RecordEvent] = []
        self.again: datetime | None = None
        self.status = job.status
        self._pod_group = pod_group
        if self.status.state.phase is None:
            self.status = entered(self.status, Move(Phase.PENDING, "Created", "the job was created"), now)
        doomed = self.doomed(self.status)
        staying = [member for member in self.members if member.name not in doomed]
        cause = latest_cause(job.status.evictions, disruptions)
        events = job_events(job, job.status, staying, pod_group, cause, not_ready)
        self._happened = list(events) if self.phase in LIVE else []

    @property
    def phase(self) -> Phase:
        """Current phase of the job."""
        assert self.status.state.phase is not None
        return self.status.state.phase

    def doomed(self, status: BatchJobStatus) -> frozenset[str]:
        """Return the names of pods to delete: stopped, replaced, of an earlier version, or beyond the replicas."""
        if status.state.phase not in LIVE:
            return frozenset(member.name for member in self.members if not member.ended)
        restarts = RestartIndex(status.restarts)
        return frozenset(
            member.name
            for member in self.members
            if self._is_superfluous(member)
            or (member.version < status.version and member.phase != "Succeeded")
            or _is_replaced(member, restarts)
        )

    def _is_superfluous(self, member: JobPod) -> bool:
        """Whether a pod is beyond the replicas of its task."""
        return member.index >= self._replicas.get(member.task, 0)

    @cached_property
    def _replicas(self) -> dict[str, int]:
        """The replicas of the tasks by name."""
        return {task.name: task.replicas for task in self.job.spec.tasks}

    @cached_property
    def _created(self) -> dict[str, datetime | None]:
        """The creation times of the pods by name."""
        return {member.name: member.pod.metadata.creation_timestamp for member in self.members}

    def follow_suspend(self) -> None:
        """Suspend the job if ``spec.suspend`` is set; resume it if only that has suspended it."""
        state, suspend = self.status.state, self.job.spec.suspend
        about = JobEvent(Event.ANY, retry=self.status.retry_count, message=f"spec.suspend is {str(suspend).lower()}")
        if suspend and self.phase in LIVE:
            self._act(Action.ABORT_JOB, about, SUSPENDED)
        elif not suspend and state.reason == SUSPENDED and self.phase in {Phase.ABORTING, Phase.ABORTED}:
            self._act(Action.RESUME_JOB, about, "Resumed")

    def execute(self, commands: Sequence[Command]) -> list[Command]:
        """Reject Commands that cannot be executed, and execute the first one that can.

        Returns the handled Commands: the others are handled when the new status has been observed.
        """
        done: list[Command] = []
        for command in commands:
            done.append(command)
            if command.metadata.uid == self.job.status.last_command:
                continue
            if rejection := self._rejection(command):
                self._warn("CommandRejected", f'Command "{command.metadata.name}" rejected: {rejection}')
                continue
            self.status = self.status.model_copy(update={"last_command": command.metadata.uid})
            action = Action(command.action)
            message = command.message or f'{action} requested by Command "{command.metadata.name}"'
            self._act(action, JobEvent(Event.ANY, retry=self.status.retry_count, message=message), COMMANDED)
            break
        return done

    def _rejection(self, command: Command) -> str:
        """Return the reason why a Command cannot be executed; empty if it can."""
        if command.target.uid != self.job.metadata.uid:
            return "target.uid does not match the UID of the job"
        if command.action not in set(Action):
            return f'unsupported action "{command.action}"'
        if Action(command.action) in _SUBJECT:
            return f'action "{command.action}" requires a {_SUBJECT[Action(command.action)]}'
        if command.action == Action.RESUME_JOB and self.job.spec.suspend:
            return "spec.suspend of the job is true: set it to false"
        if TRANSITIONS[self.phase, Action(command.action)].to is None:
            return f'action "{command.action}" has no effect in phase {self.phase}'
        return ""

    def react(self) -> None:
        """Apply the lifecycle policies to the events, and delayed actions that are due."""
        self._wake()
        evicted = [job_event for job_event in self._happened if job_event.evicted]
        if evicted:
            others = f", and {len(evicted) - 1} more" if len(evicted) > 1 else ""
            self._warn(Event.POD_EVICTED, f"{evicted[0].message}{others}")
        for job_event in self._happened:
            response = respond(self.job.spec, job_event)
            if response is None or (job_event.old and response.action not in _ENDING):
                continue
            if self.phase not in LIVE or self._covered(job_event):
                continue
            if response.delay:
                self._delay(job_event, response.action, response.delay)
            else:
                self._act(response.action, job_event, job_event.event)

    def _wake(self) -> None:
        """Drop delayed actions whose cause no longer exists, and apply those that are due."""
        by_name = {member.name: member for member in self.members}
        unknown = self._pod_group is not None and self._pod_group.status.phase == "Unknown"
        keep: list[DelayedAction] = []
        due: list[DelayedAction] = []
        for entry in self.status.delayed:
            member = by_name.get(entry.pod)
            if member is not None and (self._is_superfluous(member) or _has_recovered(entry, member)):
                continue
            if (entry.event is Event.UNKNOWN and not unknown) or self.phase not in LIVE:
                continue
            (due if entry.due <= self.now else keep).append(entry)
        if len(keep) != len(self.status.delayed):
            self.status = self.status.model_copy(update={"delayed": keep})
        for entry in due:
            member = by_name.get(entry.pod)
            retry = member.retry if member is not None else self.status.retry_count
            about = JobEvent(
                entry.event, entry.task, entry.partition, entry.pod, retry=retry, message=_since(entry, member)
            )
            if self.phase in LIVE and not self._covered(about):
                self._act(entry.action, about, entry.event)

    def _delay(self, job_event: JobEvent, action: Action, delay: timedelta) -> None:
        if job_event.event is Event.POD_PENDING:
            # The creation time of the pod is known: the delay needs no entry in the status.
            due = (self._created.get(job_event.pod) or self.now) + delay
            if due <= self.now:
                self._act(action, job_event, job_event.event)
            else:
                self.again = min(self.again or due, due)
            return
        about = (job_event.task, job_event.pod)
        standing = [entry for entry in self.status.delayed if (entry.task, entry.pod) == about]
        if any(entry.action is action for entry in standing):
            return
        new = DelayedAction(
            action=action,
            event=job_event.event,
            due=(self.now + delay).replace(microsecond=0),
            task=job_event.task,
            partition=job_event.partition,
            pod=job_event.pod,
            uid=job_event.uid,
        )
        others = [entry for entry in self.status.delayed if (entry.task, entry.pod) != about]
        self.status = self.status.model_copy(update={"delayed": [*others, new]})
        self.events.append(RecordEvent("Normal", "ActionDelayed", f"{job_event.message}: {action} in {delay}"))

    def _await_pod(self, action: Action, about: JobEvent) -> None:
        """Delay what a policy for evictions with a timeout does if the pod that an action restarts does not run by then."""
        event = replace(about, event=Event.POD_EVICTED, exit_codes=(), message=f"pod {about.pod} is restarted")
        response = respond(self.job.spec, event) if about.pod else None
        if response is not None and response.delay and response.action is not action:
            self._delay(event, response.action, response.delay)

    def _covered(self, job_event: JobEvent) -> bool:
        """Return whether the pods of the event are being replaced already."""
        return self._restarts.replaces(job_event.task, job_event.partition, job_event.pod, job_event.retry)

    def _act(self, action: Action, about: JobEvent, reason: str) -> None:
        step = TRANSITIONS[self.phase, action]
        if step.to is None:
            return
        subject = _SUBJECT.get(action)
        if subject and not getattr(about, subject):
            self._warn("ActionRejected", f"{about.message}: {action} requires a {subject}")
            return
        retry, restarts, version = self.status.retry_count, self.status.restarts, self.status.version
        if step.stop is Stop.TARGET:
            # During a restart, pods of the previous retry are part of it; pods created by it need another restart.
            retry += self.phase is not Phase.RESTARTING or about.retry >= retry
            restart = _restart(action, about, retry)
            restarts = [*restarts, restart]
            self._restarts.add(restart)
            self._await_pod(action, about)
        else:
            if step.stop is Stop.ALL and self.phase is Phase.RESTARTING and Restart(before=retry) in restarts:
                return
            retry += step.costs_retry
            version += 1
            restarts = [Restart(before=retry)] if step.stop is Stop.ALL else []
            self._restarts = RestartIndex(restarts)
        counted = retry > self.status.retry_count
        delayed = [entry for entry in self.status.delayed if not _meant(action, about, entry)]
        self.status = self.status.model_copy(
            update={"retry_count": retry, "version": version, "restarts": restarts, "delayed": delayed}
        )
        if not isinstance(reason, Event):  # a user requests it
            self.status = without_pause(self.status)
        elif counted:
            self.status = with_pause(self.status, self._ran(about), self.now)
        message = f"{about.message}: restart {retry}" if step.costs_retry else about.message
        if action is Action.RESUME_JOB:
            self.status = without_start(self.status)
        if self.job.binding.action_events:
            self.events.append(RecordEvent("Normal", "ExecuteAction", f"Start to execute action {action}"))
        if self.phase is step.to:
            self.status = with_reason(self.status, reason, message)
        else:
            self.status = entered(self.status, Move(step.to, reason, message), self.now)

    def _ran(self, about: JobEvent) -> timedelta:
        """Return how long the pod of an event existed, or the longest of all pods for an event without a pod."""
        made = [
            member.pod.metadata.creation_timestamp or self.now
            for member in self.members
            if about.pod in {"", member.name}
        ]
        return self.now - min(made, default=self.now)

    def _warn(self, reason: str, message: str) -> None:
        self.events.append(RecordEvent("Warning", reason, message))


def _has_recovered(delayed: DelayedAction, member: JobPod) -> bool:
    """Whether the pod of a delayed action runs again."""
    runs = member.phase == "Running" and not member.leaving
    return runs and delayed.event in {Event.POD_FAILED, Event.POD_EVICTED}


def _is_replaced(member: JobPod, restarts: RestartIndex) -> bool:
    return restarts.replaces(member.task, member.partition, member.name, member.retry)


def _restart(action: Action, about: JobEvent, before: int) -> Restart:
    match action:
        case Action.RESTART_POD:
            return Restart(before=before, task=about.task, pod=about.pod)
        case Action.RESTART_PARTITION:
            return Restart(before=before, task=about.task, partition=about.partition)
        case _:
            return Restart(before=before, task=about.task)


def _meant(action: Action, about: JobEvent, delayed: DelayedAction) -> bool:
    """Return whether an action makes a delayed one superfluous because it covers the same pods."""
    match action:
        case Action.RESTART_POD:
            return delayed.action is action and delayed.pod == about.pod
        case Action.RESTART_PARTITION:
            same = (delayed.task, delayed.partition) == (about.task, about.partition)
            return delayed.action in {action, Action.RESTART_POD} and same
        case Action.RESTART_TASK:
            return delayed.action in _SUBJECT and delayed.task == about.task
        case _:
            return True


def _since(delayed: DelayedAction, member: JobPod | None) -> str:
    if delayed.event is Event.POD_FAILED and member is not None and member.phase == "Failed":
        return f"{member.failure}: {delayed.event} timed out"
    about = f"pod {delayed.pod}" if delayed.pod else f"task {delayed.task}" if delayed.task else "the job"
    return f"{delayed.event} of {about} timed out"
