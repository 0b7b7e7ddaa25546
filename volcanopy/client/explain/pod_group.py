"""Report about a pod group without a BatchJob: of an operator, of a workload, of a single pod, or of another gang API."""

from dataclasses import dataclass

from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.client.durations import span
from volcanopy.client.explain.gates import Members, gate_rows, passed_rows
from volcanopy.client.explain.job import GRACE, Facts, with_reason, with_remedies, with_stale_lease
from volcanopy.client.explain.pod_problems import pod_problems, startup_problem
from volcanopy.client.explain.report import JobReport, single_line

KIND = "PodGroupExplanation"


@dataclass(frozen=True, kw_only=True)
class GroupFacts(Facts):
    """The objects about a pod group; ``title`` names it as its user does."""

    group: core.PodGroup
    title: str

    @property
    def queue_name(self) -> str:
        """The name of its queue."""
        return self.group.spec.queue or names.DEFAULT_QUEUE

    @property
    def members(self) -> Members:
        """Queue and pods of the group."""
        return Members(self.queue_name, max(self.group.spec.min_member, 1), len(self.pods or ()))


def group_report(facts: GroupFacts) -> JobReport:
    """Return the report about a pod group."""
    group, reason = facts.group, facts.group.status.explanation
    phase = group.status.phase or "Pending"
    report = JobReport(
        name=group.metadata.name,
        namespace=group.metadata.namespace,
        phase=phase,
        queue=facts.queue_name,
        state=phase.lower(),
        summary=f"{facts.title} is {phase.lower()}",
        pods=pod_problems(facts.pods or (), facts.warnings),
        notes=facts.unread,
        kind=KIND,
    )
    if phase == "Running":
        report = _running(facts, report)
    elif phase in {"Pending", "Inqueue", "Unknown"}:
        report = _pending(facts, report)
    if reason is not None:
        report = with_reason(report, reason, gate_rows(facts.members, group, facts.queue, reason))
    return report if facts.answer is None else with_remedies(report, facts.answer)


def _running(facts: GroupFacts, report: JobReport) -> JobReport:
    status, reason = facts.group.status, facts.group.status.explanation
    parts = [f"{status.running}/{facts.members.minimum} required pods running"]
    parts += [problem] if (problem := startup_problem(report.pods)) else []
    parts += [f"other pods are pending: {reason.message}"] if reason is not None else []
    summary = f"{facts.title} is running: {'; '.join(parts)}"
    return replace(report, summary=summary, gates=passed_rows(facts.members, facts.group, facts.queue))


def _pending(facts: GroupFacts, report: JobReport) -> JobReport:
    reason = facts.group.status.explanation
    if reason is not None:
        report = with_stale_lease(report, facts)
    why = single_line(reason.message) if reason is not None else _unexplained(facts)
    rows = gate_rows(facts.members, facts.group, facts.queue, None)
    return replace(report, state="pending", summary=f"{facts.title} is pending: {why}", gates=rows)


def _unexplained(facts: GroupFacts) -> str:
    """Return why a pod group waits that the scheduler does not explain."""
    group = facts.group
    if facts.queue_missing:
        return f'queue "{facts.queue_name}" not found'
    waiting = next((entry.message for entry in group.status.conditions if entry.type == "Unschedulable"), "")
    if waiting:
        return single_line(waiting)
    if facts.pods is not None and len(facts.pods) < facts.members.minimum:
        return f"{len(facts.pods)}/{facts.members.minimum} required pods created"
    if group.status.phase:
        return "its pods are starting"
    created = group.metadata.creation_timestamp
    age = (facts.now - created).total_seconds() if created is not None else 0.0
    if age < GRACE:
        return "not processed by the scheduler yet"
    return (
        f"not processed by the scheduler for {span(age)}; check that it is running, and the schedulerName of the pods"
    )


def title_of(group: core.PodGroup) -> str:
    """Return how a user names a pod group: by the PodGroup of another API that it stands for, or by its workload."""
    controller = group.metadata.controller
    if controller is None:
        return f'pod group "{group.metadata.name}"'
    if group.metadata.name != names.workload_group(controller.uid):
        return f'pod group "{group.metadata.name}" of {controller.kind} "{controller.name}"'
    if controller.kind == "PodGroup":
        return f'pod group "{controller.name}" of {controller.api_version.partition("/")[0]}'
    return f'pod group of {controller.kind} "{controller.name}"'
