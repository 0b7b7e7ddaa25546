"""Invariants of victims: critical pods, disruption budgets, priority and cooldown time."""

from collections.abc import Iterator
from datetime import timedelta

from volcanopy.api import core, names
from volcanopy.api.model import parse_duration
from volcanopy.scheduler.invariants.node_rules import matches
from volcanopy.scheduler.invariants.plan_outcome import Moves, action_of
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

_CRITICAL = ("system-cluster-critical", "system-node-critical")
_COOLDOWN = names.COOLDOWN_TIME


def protected(moves: Moves) -> Iterator[str]:
    """Yield the evictions of critical pods and of pods within their cooldown time, where enforced."""
    for row, evict in moves.victims:
        pod, action = moves.snapshot.tasks.pods[row], action_of(evict.reason)
        if moves.enforces("conformance", action) and _is_critical(pod):
            yield f"pod {evict.pod} is evicted although it is a critical pod"
        if moves.enforces("cdp", action) and _is_hot(moves, row, pod):
            yield f"pod {evict.pod} is evicted before its cooldown time is over"


def over_budget(moves: Moves) -> Iterator[str]:
    """Yield the disruption budgets that are exceeded."""
    budgets = moves.snapshot.budgets
    if not budgets:
        return
    pods = [
        moves.snapshot.tasks.pods[row]
        for row, evict in moves.victims
        if moves.enforces("pdb", action_of(evict.reason)) and _may_protect(moves, row)
    ]
    for budget in budgets:
        charged = sum(
            pod.metadata.namespace == budget.metadata.namespace
            and pod.metadata.name not in budget.status.disrupted_pods
            and matches(budget.spec.selector, pod.metadata.labels)
            for pod in pods
        )
        allowed = max(budget.status.disruptions_allowed, 0)
        if charged > allowed:
            yield (
                f"disruption budget {budget.metadata.key} allows {allowed} evictions, and {charged} of its pods are evicted"
            )


def wrongly_preempted(moves: Moves) -> Iterator[str]:
    """Yield the preemptions whose preemptor has no higher priority: of the job, or within a job of the task."""
    tasks, jobs = moves.snapshot.tasks, moves.snapshot.jobs
    preemptors: dict[str, tuple[int, int]] = {}
    for row in moves.placed.tolist() if moves.evictions else ():
        job = int(tasks.job[row])
        if job != NONE:
            key, priority = str(jobs.keys[job]), int(tasks.priority[row])
            preemptors[key] = (job, max(priority, preemptors.get(key, (job, priority))[1]))
    for row, evict in moves.victims:
        own, preemptor = int(tasks.job[row]), preemptors.get(evict.preemptor)
        if action_of(evict.reason) != "preempt" or own == NONE or preemptor is None:
            continue
        job, theirs = preemptor
        its = int(tasks.priority[row] if own == job else jobs.priority[own])
        theirs = theirs if own == job else int(jobs.priority[job])
        if its >= theirs:
            yield (
                f"pod {evict.pod} of priority {its} is preempted for {evict.preemptor}, which is of priority {theirs}"
            )


def _may_protect(moves: Moves, row: int) -> bool:
    """Return whether budgets count for a pod: for each that has no job, else by the rights of its submitter."""
    jobs, queues, job = moves.snapshot.jobs, moves.snapshot.queues, int(moves.snapshot.tasks.job[row])
    if job == NONE or jobs.queue[job] == NONE:
        return True
    others = None if moves.enforces("pdb", "everybody") else core.Subjects()
    return queues.terms.rights.may_protect(int(jobs.queue[job]), jobs.submitters[jobs.submitter[job]], others)


def _is_critical(pod: core.Pod) -> bool:
    return pod.spec.priority_class_name in _CRITICAL or pod.metadata.namespace == "kube-system"


def _is_hot(moves: Moves, row: int, pod: core.Pod) -> bool:
    if moves.snapshot.tasks.status[row] != Status.RUNNING:
        return False
    cooldown = _duration(pod.metadata.labels.get(_COOLDOWN)) or _duration(pod.metadata.annotations.get(_COOLDOWN))
    since = [
        condition.last_transition_time
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "True"
    ]
    return bool(cooldown and since and since[0] and since[0] + cooldown > moves.snapshot.now)


def _duration(text: str | None) -> timedelta | None:
    try:
        duration = parse_duration(text)
    except ValueError:
        return None
    return duration if isinstance(duration, timedelta) and duration > timedelta(0) else None
