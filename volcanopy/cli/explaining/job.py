"""Why a job stands where it stands: its BatchJob, PodGroup, queue and pods in, an account out.

The BatchJob and its PodGroup are enough for the verdict and the gates; what else may be read makes it more exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.explaining import gates, troubles
from volcanopy.cli.explaining.account import JobAccount, PodsAlike, counted, listed
from volcanopy.cli.framework.durations import since, span
from volcanopy.cli.framework.kinds import key_of, read, spec_of, status_of
from volcanopy.cli.jobs.status import message, minimum, phase, queue
from volcanopy.kube.client.kinds import Json

PATIENCE = 30.0
"""Seconds in which controller and scheduler have seen whatever is new, if they are there."""


@dataclass(frozen=True)
class JobFacts:
    """What is known of a job.

    ``group``, ``queue``, ``pods`` and ``lease`` are None where there is none, or where it may not be read: then
    ``unread`` says so, a sentence each. ``queue_missing`` is True where there is certainly no such queue, ``lease`` is
    that of the scheduler.
    """

    job: Json
    now: datetime
    group: Json | None = None
    queue: Json | None = None
    queue_missing: bool = False
    pods: Sequence[Json] | None = None
    lease: Json | None = None
    unread: tuple[str, ...] = field(default=())


def account_of(facts: JobFacts) -> JobAccount:
    """What is to be said about the job."""
    job = facts.job
    where, stands = key_of(job), phase(read(BatchJob, job))
    base = JobAccount(
        name=where.name,
        namespace=where.namespace,
        phase=stands,
        queue=queue(read(BatchJob, job)),
        stands="",
        verdict="",
        tasks=tuple(_waiting_tasks(job)),
        pods=troubles.alike(facts.pods or ()),
        notes=facts.unread,
    )
    if stands == "Pending":
        return _pending(facts, base)
    if stands == "Running":
        return _running(facts, base)
    word, verdict = _elsewhere(facts, stands)
    pods = base.pods if stands in {"Failed", "Aborting", "Restarting", "Terminating", "Completing"} else ()
    return replace(base, stands=word, verdict=f"job {where.name} {verdict}", tasks=(), pods=pods)


def _elsewhere(facts: JobFacts, stands: str) -> tuple[str, str]:
    """The word and the verdict for a job that has ended, or is on its way to another phase."""
    job = facts.job
    state = status_of(job).get("state") or {}
    moment = state.get("lastTransitionTime")
    ago = f" {since(moment, facts.now)} ago" if moment else ""
    said = " ".join(message(read(BatchJob, job)).split())
    why = f": {said}" if said else ""
    left = counted(int(status_of(job).get("terminating", 0)), "pod")
    resume = f"`volcanopy job resume {key_of(job).name}` lets it go on"
    verdicts = {
        "Completed": ("completed", f"completed{ago}{why}"),
        "Failed": ("failed", f"failed{ago}{why}"),
        "Terminated": ("terminated", f"was terminated{ago}{why}"),
        "Aborted": ("suspended", f"is suspended{', since' + ago.removesuffix(' ago') if ago else ''}{why}; {resume}"),
        "Aborting": ("suspending", f"is being suspended, {left} still leaving{why}"),
        "Terminating": ("terminating", f"is being terminated, {left} still leaving{why}"),
        "Completing": ("completing", f"is being completed, {left} still leaving{why}"),
        "Restarting": ("restarting", f"is being restarted, {left} still leaving{why}"),
    }
    return verdicts.get(stands, (stands.lower(), f"is {stands}{why}"))


def _running(facts: JobFacts, base: JobAccount) -> JobAccount:
    said = " ".join(message(read(BatchJob, facts.job)).split())
    trouble = troubles.trouble(base.pods)
    unplaced = next((one for one in base.pods if one.state == troubles.UNPLACED), None)
    why = status_of(facts.group).get("explanation") or {} if facts.group is not None else {}
    parts = [said or "its pods run"]
    if trouble:
        parts.append(trouble)
    if unplaced is not None:
        number = len(unplaced.names)
        waits = f"{counted(number, 'pod')} {'waits' if number == 1 else 'wait'} for a node"
        parts.append(f"{waits}{': ' + unplaced.message if unplaced.message else ''}")
    elif why:
        parts.append(f"the rest waits: {why.get('message')}")
    parts += base.tasks
    account = replace(base, stands="runs", verdict=f"job {base.name} runs: {'; '.join(parts)}")
    if why:
        return _with_reason(account, facts, why)
    return replace(account, gates=gates.passed(facts.job, facts.group, facts.queue))


def _pending(facts: JobFacts, base: JobAccount) -> JobAccount:
    job, group = facts.job, facts.group
    why = status_of(group).get("explanation") or {} if group is not None else {}
    unseen = _unseen(facts)
    if unseen and not why:
        made = gates.gates(job, group, facts.queue, {}) if group is not None else ()
        return replace(base, stands="waits", verdict=f"job {base.name} waits: {unseen}", gates=made)
    notes = (*base.notes, *([_silence(facts)] if _silence(facts) else []))
    if why:
        account = replace(base, stands="waits", verdict=f"job {base.name} waits: {why.get('message')}", notes=notes)
        return _with_reason(account, facts, why)
    trouble = troubles.trouble(base.pods)
    if trouble:
        made = gates.passed(job, group, facts.queue)
        return replace(
            base, stands="starts", verdict=f"job {base.name} cannot start: {trouble}", gates=made, notes=notes
        )
    verdict, stands = _on_its_way(facts, base.pods, base.tasks)
    made = gates.passed(job, group, facts.queue) if stands == "starts" else gates.gates(job, group, facts.queue, {})
    return replace(base, stands=stands, verdict=f"job {base.name} {verdict}", gates=made, notes=notes)


def _with_reason(account: JobAccount, facts: JobFacts, why: Json) -> JobAccount:
    """The account with what the scheduler found out."""
    return replace(
        account,
        gate=str(why.get("gate", "")),
        gates=gates.gates(facts.job, facts.group, facts.queue, why),
        nodes=dict(sorted((why.get("nodes") or {}).items(), key=lambda item: (-item[1], item[0]))),
        ahead=tuple(why.get("blockedBy") or ()),
        unblock=str(why.get("unblockedBy") or ""),
        numbers=why.get("numbers") or {},
        amounts=why.get("amounts") or {},
    )


def _on_its_way(facts: JobFacts, pods: Sequence[PodsAlike], tasks: Sequence[str]) -> tuple[str, str]:
    """The verdict for a job that nobody refuses anything, and the word for it."""
    job, status = facts.job, status_of(facts.job)
    if not gates.is_enqueued(facts.group):
        said = " ".join(message(read(BatchJob, job)).split()) or "the scheduler has yet to look at it"
        return said if said.startswith("waits ") else f"waits: {said}", "waits"
    started = sum(int(status.get(kind, 0)) for kind in ("running", "succeeded", "failed"))
    unplaced = [one for one in pods if one.state == troubles.UNPLACED]
    told = next((one.message for one in unplaced if one.message), "")
    if told:
        return f"waits: {told}", "waits"
    if unplaced:
        number = sum(len(one.names) for one in unplaced)
        return f"waits: the scheduler has yet to find nodes for {counted(number, 'pod')}", "waits"
    if tasks:
        return f"waits: {'; '.join(tasks)}", "waits"
    return f"starts: {started} of {minimum(read(BatchJob, job))} pods that it needs run or have run", "starts"


def _unseen(facts: JobFacts) -> str:
    """Who should have looked at the job and has not; empty if all have."""
    job, group = facts.job, facts.group
    age = (facts.now - datetime.fromisoformat(job["metadata"]["creationTimestamp"])).total_seconds()
    if not status_of(job).get("state") and group is None:
        if age < PATIENCE:
            return "it was made a moment ago, and the job controller has yet to look at it"
        return f"the job controller has not looked at it for {span(age)}: is it running?"
    if facts.queue_missing:
        return f"queue {queue(read(BatchJob, job))} does not exist"
    if group is None:
        if any("pod group" in one for one in facts.unread):
            return ""
        return "the job controller has yet to make its pod group"
    if status_of(group).get("phase") or status_of(group).get("conditions"):
        return ""
    waited = (facts.now - datetime.fromisoformat(group["metadata"]["creationTimestamp"])).total_seconds()
    scheduler = spec_of(job).get("schedulerName") or names.SCHEDULER
    if scheduler != names.SCHEDULER:
        return (
            f"its pods are for scheduler {scheduler}, which has not looked at it for {span(waited)}; "
            f"volcanopy's own is called {names.SCHEDULER}"
        )
    if waited < PATIENCE:
        return "the scheduler has yet to look at it"
    return f"no scheduler has looked at it for {span(waited)}: is it running?{_lease_said(facts)}"


def _lease_said(facts: JobFacts) -> str:
    stale = _stale(facts)
    return f" (its lease was last renewed {stale} ago)" if stale else ""


def _stale(facts: JobFacts) -> str:
    """For how long the scheduler's lease has not been renewed, if that is too long."""
    spec = spec_of(facts.lease) if facts.lease is not None else {}
    renewed, duration = spec.get("renewTime"), spec.get("leaseDurationSeconds") or 0
    if not renewed:
        return ""
    seconds = (facts.now - datetime.fromisoformat(renewed)).total_seconds()
    return span(seconds) if seconds > max(3 * duration, PATIENCE) else ""


def _silence(facts: JobFacts) -> str:
    """What is to be kept in mind where the scheduler seems to be down."""
    stale = _stale(facts)
    return (
        f"the scheduler seems to be down: its lease was last renewed {stale} ago; this is what it said before"
        if stale
        else ""
    )


def _waiting_tasks(job: Json) -> list[str]:
    """The tasks that wait for others to get going, a sentence each."""
    tasks = {task["name"]: task for task in spec_of(job).get("tasks") or ()}
    counted_pods = status_of(job).get("taskStatusCount") or {}
    said = []
    for name, task in tasks.items():
        wanted = task.get("dependsOn") or {}
        before = wanted.get("name") or ()
        if not before or counted_pods.get(name) or not task.get("replicas", 1):
            continue
        lacking = [one for one in before if one in tasks and _running_of(counted_pods, one) < _needs(tasks[one])]
        met = len(lacking) < len(before) if wanted.get("iteration") == "any" else not lacking
        if lacking and not met:
            of = [f"{one} ({_running_of(counted_pods, one)} of {_needs(tasks[one])} ready)" for one in lacking]
            word = "task" if len(of) == 1 else "one of tasks" if wanted.get("iteration") == "any" else "tasks"
            said.append(f"task {name} waits for {word} {listed(of)}")
    return said


def _needs(task: Json) -> int:
    return int(task.get("minAvailable") or task.get("replicas", 1))


def _running_of(counts: Json, task: str) -> int:
    phases = (counts.get(task) or {}).get("phase") or {}
    return int(phases.get("Running", 0)) + int(phases.get("Succeeded", 0))
