"""Report about a job, from its BatchJob, PodGroup, queue and pods.

BatchJob and PodGroup are enough for the summary and the gates; the other objects add detail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.batch_read import BatchJob, TaskSpec
from volcanopy.api.container_states import FAILED_SYNC, POD_FAILS_REPEATEDLY, POD_START_FAILED
from volcanopy.api.gates import Gate
from volcanopy.api.quantity import counted
from volcanopy.api.read_model import ReadModel
from volcanopy.client.durations import since, span
from volcanopy.client.explain.gates import Members, gate_rows, is_enqueued, members_of, passed_rows
from volcanopy.client.explain.pod_problems import UNSCHEDULED, pod_problems, startup_problem
from volcanopy.client.explain.report import GateRow, JobReport, PodProblem, listed, single_line
from volcanopy.client.jobs import status as job_status
from volcanopy.client.jobs.pods import Pod
from volcanopy.whatif.starts import NO_REMEDY, Start

if TYPE_CHECKING:
    from volcanopy.whatif.answer import JobAnswer

GRACE = 30.0
"""Seconds in which a running controller or scheduler processes a new object."""


class LeaseSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Renewal of a Lease."""

    renew_time: datetime | None = None
    lease_duration_seconds: int = 0


class Lease(ReadModel, frozen=True, kw_only=True, gc=False):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The objects about a job or a pod group.

    ``queue``, ``pods`` and ``lease`` (the scheduler's) are None if they do not exist or may not be read; ``unread`` has a
    sentence for each that may not be read. ``warnings`` are those of pods that are starting, by name. ``answer`` is that of
    the what-if engine. ``queue_missing`` is True if the queue does not exist.
    """

    now: datetime
    queue: core.Queue | None = None
    queue_missing: bool = False
    pods: Sequence[Pod] | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    lease: Lease | None = None
    answer: "JobAnswer | None" = None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobFacts(Facts):
    """The objects about a job, with its PodGroup, which is None if it does not exist or may not be read."""

    job: BatchJob
    group: core.PodGroup | None = None

    @property
    def reason(self) -> core.Explanation | None:
        """Why the job waits according to the scheduler."""
        return self.group.status.explanation if self.group is not None else None

    @property
    def members(self) -> Members:
        """Queue and pods of the job."""
        return members_of(self.job)


def job_report(facts: JobFacts) -> JobReport:
    """Return the report about a job."""
    job = facts.job
    phase = job_status.phase(job)
    estimate = job.status.estimated_start if phase == "Pending" else None
    report = JobReport(
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        phase=phase,
        queue=job_status.queue(job),
        state="",
        summary="",
        estimated_start=job_status.estimated_start(estimate),
        expected_start=job_status.estimated_start(estimate, facts.now),
        alternatives=_alternatives(facts),
        tasks=(*_waiting_tasks(job), *_absent_pods(job)),
        pods=pod_problems(facts.pods or (), facts.warnings),
        notes=facts.unread,
    )
    if deletion := job_status.deletion(job):
        return replace(report, state="deleting", summary=f'job "{report.name}" is {deletion}', tasks=())
    if phase == "Pending":
        return _with_stuck_pods(_with_answer(_pending(facts, report), facts), job)
    if phase == "Running":
        return _with_stuck_pods(_with_answer(_running(facts, report), facts), job)
    state, summary = _ended_or_changing(facts, phase)
    pods = report.pods if phase in {"Failed", "Aborting", "Restarting", "Terminating", "Completing"} else ()
    return replace(report, state=state, summary=f'job "{report.name}" {summary}', tasks=(), pods=pods)


def _with_stuck_pods(report: JobReport, job: BatchJob) -> JobReport:
    """Return the report with the pods that cannot terminate because their nodes are not ready."""
    stuck = next((condition.message for condition in job.status.conditions if condition.type == "NodeNotReady"), "")
    return report if not stuck or stuck in report.summary else replace(report, summary=f"{report.summary}; {stuck}")


def _alternatives(facts: JobFacts) -> tuple[str, ...]:
    """Return the alternative that was selected, or with which the job waits, and what is expected of each."""
    selected, reason = facts.job.status.alternative, facts.reason
    if selected is not None:
        return (f'"{selected.name}" was selected', *filter(None, selected.message.split("; ")))
    if reason is None or not (name := reason.numbers.get("alternative", "")):
        return ()
    finishes = {key.removeprefix("alternative."): text for key, text in reason.numbers.items() if key != "alternative"}
    alternatives = [item.name for item in facts.job.spec.alternatives]
    return (f'waits with "{name}"', *(f"{item} {finishes[item]}" for item in alternatives if item in finishes))


def _with_answer(report: JobReport, facts: JobFacts) -> JobReport:
    """Return the report with what the what-if engine confirmed."""
    if facts.answer is None:
        return report
    answer = facts.answer
    if answer.start is Start.NOW and _rejected_pods(facts.job):
        return report  # for a reason that only the API server knows, such as another webhook
    unexplained = facts.reason is None and report.state == "pending" and not _unprocessed(facts)
    if answer.start is Start.NEVER and answer.gate and unexplained:
        reason = core.Explanation(gate=answer.gate, message=answer.message)
        rows = gate_rows(facts.members, facts.group, facts.queue, reason)
        summary = f'job "{report.name}" is pending: {answer.message}'
        report = replace(report, summary=summary, gate=answer.gate, gates=rows)
    return with_remedies(report, answer)


def with_remedies(report: JobReport, answer: "JobAnswer") -> JobReport:
    """Return the report with the start and the remedies that the what-if engine confirmed."""
    if answer.start is Start.NEVER and report.gate and answer.message not in report.summary:
        summary = f"{report.summary}; it does not start when all other jobs have ended: {answer.message}"
        report = replace(report, summary=summary)
    lines = tuple(remedy.text for remedy in answer.remedies)
    if not lines and answer.start is not Start.NOW:
        lines = (NO_REMEDY if answer.searched else "the search ended before a change was found (--budget SECONDS)",)
    return replace(
        report,
        blocked_by=() if answer.start is Start.NEVER else answer.after or report.blocked_by,
        result=answer.start.value,
        starts_with=lines,
        remedies=tuple(remedy.document() for remedy in answer.remedies),
        search_ended="budget ended" if answer.searched is False else "",
    )


def _ended_or_changing(facts: JobFacts, phase: str) -> tuple[str, str]:
    """Return state and summary of a job that has ended or is changing its phase."""
    state, name = facts.job.status.state, facts.job.metadata.name
    ago = f" {since(state.last_transition_time, facts.now)} ago" if state.last_transition_time is not None else ""
    message = single_line(state.message)
    why = f": {message}" if message else ""
    pods = f"; {counted(facts.job.status.terminating, 'pod')} terminating"
    by_spec = state.reason == "Suspended"
    resume = "; set it to false to resume the job" if by_spec else f"; resume it with `volcanopy job resume {name}`"
    suspended = f" since{ago.removesuffix(' ago')}" if ago else ""
    summaries = {
        "Completed": ("completed", f"completed{ago}{why}"),
        "Failed": ("failed", f"failed{ago}{why}"),
        "Terminated": ("terminated", f"was terminated{ago}{why}"),
        "Aborted": ("suspended", f"is suspended{suspended}{why}{resume}"),
        "Aborting": ("suspending", f"is being suspended{why}{pods}"),
        "Terminating": ("terminating", f"is being terminated{why}{pods}"),
        "Completing": ("completing", f"is completing{why}{pods}"),
        "Restarting": ("restarting", f"is restarting{why}{pods}"),
    }
    return summaries.get(phase, (phase.lower(), f"is {phase}{why}"))


def _running(facts: JobFacts, report: JobReport) -> JobReport:
    parts = [single_line(facts.job.status.state.message) or "its pods are running"]
    problem = startup_problem(report.pods)
    if problem and facts.job.status.state.reason not in {
        POD_FAILS_REPEATEDLY,
        POD_START_FAILED,
    }:  # else the message has it
        parts.append(problem)
    unscheduled = next((problem for problem in report.pods if problem.state == UNSCHEDULED), None)
    if unscheduled is not None:
        message = f": {unscheduled.message}" if unscheduled.message else ""
        parts.append(f"{counted(len(unscheduled.names), 'pod')} unscheduled{message}")
    elif facts.reason is not None:
        parts.append(f"other pods are pending: {facts.reason.message}")
    parts += report.tasks
    report = replace(report, state="running", summary=f'job "{report.name}" is running: {"; ".join(parts)}')
    if facts.reason is not None:
        return _with_reason(report, facts, facts.reason)
    return replace(report, gates=passed_rows(facts.members, facts.group, facts.queue))


def _pending(facts: JobFacts, report: JobReport) -> JobReport:
    job, group, queue, reason = facts.job, facts.group, facts.queue, facts.reason
    pending = f'job "{report.name}" is pending: '
    if message := _rejected_pods(job):
        rows = gate_rows(facts.members, group, queue, core.Explanation(gate=Gate.GANG, message=message))
        return replace(report, state="pending", summary=pending + message, gate=Gate.GANG, gates=rows)
    if reason is None and (unprocessed := _unprocessed(facts)):
        rows = gate_rows(facts.members, group, queue, None) if group is not None else ()
        return replace(report, state="pending", summary=pending + unprocessed, gates=rows)
    report = with_stale_lease(report, facts)
    if reason is not None:
        return _with_reason(replace(report, state="pending", summary=pending + reason.message), facts, reason)
    if problem := startup_problem(report.pods):
        summary = f'job "{report.name}" cannot start: {problem}'
        return replace(report, state="starting", summary=summary, gates=passed_rows(facts.members, group, queue))
    if waits_for := _next_step(facts, report.pods, report.tasks):
        rows = gate_rows(facts.members, group, queue, None)
        return replace(report, state="pending", summary=pending + waits_for, gates=rows)
    status = job.status
    started = status.running + status.succeeded + status.failed
    summary = f'job "{report.name}" is starting: {started}/{job_status.minimum(job)} pods started'
    return replace(report, state="starting", summary=summary, gates=passed_rows(facts.members, group, queue))


def _rejected_pods(job: BatchJob) -> str:
    """Return why the job's objects cannot be created; empty if they can."""
    state = job.status.state
    return single_line(state.message) if state.reason in {FAILED_SYNC, "PluginError"} else ""


def _with_reason(report: JobReport, facts: JobFacts, reason: core.Explanation) -> JobReport:
    return with_reason(report, reason, gate_rows(facts.members, facts.group, facts.queue, reason))


def with_reason(report: JobReport, reason: core.Explanation, gates: tuple[GateRow, ...]) -> JobReport:
    """Return the report with the scheduler's explanation and the gates."""
    return replace(
        report,
        gate=reason.gate,
        gates=gates,
        nodes=dict(sorted(reason.nodes.items(), key=lambda item: (-item[1], item[0]))),
        blocked_by=reason.blocked_by,
        unblocked_by=reason.unblocked_by,
        numbers=reason.numbers,
        amounts=reason.amounts,
    )


def _next_step(facts: JobFacts, problems: Sequence[PodProblem], tasks: Sequence[str]) -> str:
    """Return what a job waits for that the scheduler does not explain; empty if its pods are starting."""
    if not is_enqueued(facts.group):
        return single_line(facts.job.status.state.message) or "not processed by the scheduler yet"
    unscheduled = [problem for problem in problems if problem.state == UNSCHEDULED]
    message = next((problem.message for problem in unscheduled if problem.message), "")
    if message:
        return message
    if unscheduled:
        number = sum(len(problem.names) for problem in unscheduled)
        return f"{counted(number, 'pod')} not processed by the scheduler yet"
    return "; ".join(tasks)


def _unprocessed(facts: JobFacts) -> str:
    """Return which component has not processed the job; empty if all have."""
    job, group = facts.job, facts.group
    if not job.status.state.phase and group is None:
        age = _seconds(job.metadata.creation_timestamp, facts.now)
        if age < GRACE:
            return "not processed by the controller yet"
        return f"not processed by the controller for {span(age)}; check that it is running"
    if facts.queue_missing:
        return f'queue "{job_status.queue(job)}" not found'
    if group is None:
        unreadable = any("pod group" in note for note in facts.unread)
        return "" if unreadable else "the controller has not created its pod group yet"
    if group.status.phase or group.status.conditions:
        return ""
    age = _seconds(group.metadata.creation_timestamp, facts.now)
    scheduler = job.spec.scheduler_name or names.SCHEDULER
    if scheduler != names.SCHEDULER:
        return (
            f'not processed by its scheduler "{scheduler}" for {span(age)}; '
            f'volcanopy\'s scheduler is named "{names.SCHEDULER}"'
        )
    if age < GRACE:
        return "not processed by the scheduler yet"
    lease = f" (its lease was last renewed {stale} ago)" if (stale := lease_age(facts.lease, facts.now)) else ""
    return f"not processed by the scheduler for {span(age)}; check that it is running{lease}"


def with_stale_lease(report: JobReport, facts: Facts) -> JobReport:
    """Return the report with a note if the scheduler seems to be down."""
    if not (stale := lease_age(facts.lease, facts.now)):
        return report
    note = f"the scheduler seems to be down: its lease was last renewed {stale} ago; this report may be outdated"
    return replace(report, notes=(*report.notes, note))


def lease_age(lease: Lease | None, now: datetime) -> str:
    """Return the time since the scheduler's lease was renewed; empty if the lease is valid or unknown."""
    spec = lease.spec if lease is not None else LeaseSpec()
    if spec.renew_time is None:
        return ""
    seconds = _seconds(spec.renew_time, now)
    return span(seconds) if seconds > max(3 * spec.lease_duration_seconds, GRACE) else ""


def _waiting_tasks(job: BatchJob) -> list[str]:
    """Return a sentence for each task that waits for the tasks that it depends on."""
    tasks = {task.name: task for task in job.spec.tasks}
    sentences = []
    for name, task in tasks.items():
        depends_on = task.depends_on
        if depends_on is None or not depends_on.name or job.status.task_status_count.get(name) or not task.replicas:
            continue
        missing = [
            dependency
            for dependency in depends_on.name
            if dependency in tasks and _ready(job, dependency) < _required(tasks[dependency])
        ]
        any_of = depends_on.iteration == "any"
        met = len(missing) < len(depends_on.name) if any_of else not missing
        if missing and not met:
            counts = [
                f'"{dependency}" ({_ready(job, dependency)}/{_required(tasks[dependency])} ready)'
                for dependency in missing
            ]
            noun = "task" if len(counts) == 1 else "one of the tasks" if any_of else "tasks"
            sentences.append(f'task "{name}" waits for {noun} {listed(counts)}')
    return sentences


def _absent_pods(job: BatchJob) -> list[str]:
    """Return a sentence for each task of whose pods some are created when others have nodes."""
    sentences, most = [], job_status.minimum(job) + core.MOST_WAITING_PODS
    for task in job.spec.tasks:
        counts = job.status.task_status_count.get(task.name)
        phases = counts.phase if counts is not None else {}
        absent = task.replicas - sum(phases.values())
        if absent > 0 and task.parallelism is None and phases.get("Pending", 0) >= most:
            verb = "is" if absent == 1 else "are"
            sentences.append(f'{counted(absent, "pod")} of task "{task.name}" {verb} created when others have nodes')
    return sentences


def _required(task: TaskSpec) -> int:
    return task.min_available or task.replicas


def _ready(job: BatchJob, task: str) -> int:
    counts = job.status.task_status_count.get(task)
    return counts.phase.get("Running", 0) + counts.phase.get("Succeeded", 0) if counts is not None else 0


def _seconds(moment: datetime | None, now: datetime) -> float:
    return (now - moment).total_seconds() if moment is not None else 0.0
