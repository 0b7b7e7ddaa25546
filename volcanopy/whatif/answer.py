"""The answer to a what-if question: when each waiting job starts, why not, and what would let it start.

A job that does not start now is tried alone: if it starts when everything else is removed it starts after other jobs have
ended, else never. The gate and the message of a job that never starts are those that it gets alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcanopy.api.core import Pod, position_of
from volcanopy.api.gates import Gate
from volcanopy.api.model import Json
from volcanopy.scheduler.model.plan import Bind, Explain, Plan
from volcanopy.scheduler.model.pod_fields import is_over
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import JobControllers, count_in_quotas, without
from volcanopy.whatif.engine import Budget, BudgetEndedError, Engine, Run
from volcanopy.whatif.expected import StartEstimate, estimated_starts
from volcanopy.whatif.flows import FlowStep, flow_steps
from volcanopy.whatif.remedies.candidate import Question
from volcanopy.whatif.search import Remedy, Search
from volcanopy.whatif.starts import Start
from volcanopy.whatif.target import (
    Target,
    foreign_scheduler,
    is_of_job,
    is_suspended,
    minimum_of,
    objects_of,
    queue_of,
    suspended_jobs,
    targets,
)
from volcanopy.whatif.trials import Trials

_ROUNDS = 2
"""The number of times that the budget of the searches is divided among the jobs whose search has not come to its end."""


@dataclass(frozen=True)
class JobAnswer:
    """When one job starts.

    ``nodes`` and ``evictions`` belong to a job that starts now. ``after`` are the jobs that end before one that starts
    later, ``estimate`` is when that is by their expected ends. ``gate`` and ``message`` are why it does not start now.
    """

    target: Target
    queue: str
    start: Start
    nodes: tuple[str, ...] = ()
    evictions: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    estimate: StartEstimate | None = None
    gate: str = ""
    message: str = ""
    explanation: Explain | None = None
    position: int = 0
    """The position in the queue among all jobs, from 1; 0 if unknown."""
    remedies: tuple[Remedy, ...] = ()
    searched: bool | None = None
    """Whether the search for remedies came to its end; None: there was none."""

    def document(self) -> Json:
        """Return the answer as JSON."""
        result: Json = {"name": self.target.name, "namespace": self.target.namespace, "podGroup": self.target.group}
        result |= {"queue": self.queue, "result": self.start.value}
        optional: Json = {
            "nodes": list(self.nodes),
            "evictions": list(self.evictions),
            "after": list(self.after),
            "estimatedStart": self.estimate.document() if self.estimate is not None else {},
            "gate": self.gate,
            "message": self.message,
            "position": self.position,
        }
        result |= {key: value for key, value in optional.items() if value}
        if self.start is not Start.NOW:
            result["remedies"] = [remedy.document() for remedy in self.remedies]
            if self.searched is False:
                result["searchEnded"] = "budget ended"
        return result


@dataclass(frozen=True)
class Answer:
    """The answer for all jobs that wait, ordered by pod group, then for those of flows; and the plans of the cycles in order."""

    jobs: tuple[JobAnswer, ...] = ()
    plans: tuple[Plan, ...] = ()
    placed: Mapping[str, Pod] = field(default_factory=dict)
    """The pods that the plans place, by key: those of jobs that are admitted in the run are in no cluster."""
    ended: bool = False
    """Whether the budget ended the run itself: nothing is known about later cycles."""


@dataclass
class Limits:
    """Limits of a question. ``jobs`` are the pod groups of the jobs that it is about; None: all that wait.

    ``remedies``: whether changes are searched for. ``estimates`` is for the estimated starts; None: there are none.
    """

    run: Budget
    search: Budget
    jobs: frozenset[str] | None = None
    remedies: bool = True
    estimates: Budget | None = None


def answer(engine: Engine, limits: Limits) -> Answer:
    """Return when each waiting job of a settled engine starts, with remedies for those that do not start now."""
    cluster = engine.cluster
    waiting = waiting_jobs(cluster)
    watched = frozenset(target.group for target in waiting)
    with cluster.trial():
        try:
            run = engine.run(limits.run, watched)
        except BudgetEndedError:
            return Answer(tuple(_unknown(cluster, target) for target in waiting), ended=True)
        bound = (effect.pod for plan in run.plans for effect in plan.of(Bind))
        bound_pods = {key: pod for key in bound if (pod := cluster.pod(key)) is not None}
        verdicts = {
            target.group: verdict(cluster, target, run) for target in waiting if target.group not in run.started
        }
    answers = dict[str, JobAnswer]()
    for target in waiting:
        queue = queue_of(cluster, target)
        if target.group in run.started:
            evictions = tuple(run.evictions.get(target.group, ()))
            answers[target.group] = JobAnswer(target, queue, Start.NOW, run.nodes[target.group], evictions)
            continue
        explanation = run.explanations.get(target.group)
        position = position_of(explanation.numbers) if explanation is not None else 0
        unconfirmed = JobAnswer(target, queue, Start.UNKNOWN, explanation=explanation, position=position)
        gate, message = verdicts[target.group]
        answers[target.group] = replace(unconfirmed, gate=gate, message=message)
    answers |= _waiting(engine, limits, [job for job in answers.values() if job.start is Start.UNKNOWN])
    for step in flow_steps(cluster, engine.now):
        if limits.jobs is None or step.target.group in limits.jobs:
            answers[step.target.group] = _of_step(engine, limits.search, step)
    return Answer(tuple(_estimated(engine, limits.estimates, list(answers.values()))), tuple(run.plans), bound_pods)


def waiting_jobs(cluster: Cluster) -> list[Target]:
    """Return the jobs that a question is about, ordered by group: those that wait, and suspended ones."""
    jobs = {target.group: target for target in (*suspended_jobs(cluster), *targets(cluster))}
    return [jobs[group] for group in sorted(jobs)]


def _unknown(cluster: Cluster, target: Target) -> JobAnswer:
    return JobAnswer(target, queue_of(cluster, target), Start.UNKNOWN, searched=False)


def _estimated(engine: Engine, budget: Budget | None, answers: Sequence[JobAnswer]) -> Iterator[JobAnswer]:
    """Yield answers, those of jobs that start after others with their estimated starts."""
    later = any(job.start in {Start.AFTER, Start.UNKNOWN} for job in answers)
    estimates = estimated_starts(engine, budget) if budget is not None and later else {}
    for job in answers:
        waits = job.start in {Start.AFTER, Start.UNKNOWN}
        yield replace(job, estimate=estimates.get(job.target.group)) if waits else job


def _waiting(engine: Engine, limits: Limits, jobs: Sequence[JobAnswer]) -> dict[str, JobAnswer]:
    """Return by group the answers for jobs that do not start now, from what is known after the run of all jobs.

    1. All jobs are tried alone.
    2. What remains of the budget is for the searches for remedies, in equal parts: what a job does not use is for the later ones.
    3. What all of them leave is for those whose parts were not enough: their earlier trials cost nothing again.
    """
    groups = {job.target.group: job for job in jobs if limits.jobs is None or job.target.group in limits.jobs}
    answers, alone = dict[str, JobAnswer](), dict[str, JobAnswer]()
    for group, job in groups.items():
        try:
            answers[group] = alone[group] = _alone(engine, limits.search, job)
        except BudgetEndedError:
            answers[group] = replace(job, searched=False if limits.remedies else None)
    trials = Trials(engine, frozenset(alone))
    searches = {group: _search(trials, groups[group].explanation, job) for group, job in alone.items()}
    for _ in range(_ROUNDS if limits.remedies else 0):
        waiting = [group for group in alone if not answers[group].searched]
        for number, group in enumerate(waiting):
            with limits.search.part(len(waiting) - number) as budget:
                answers[group] = _searched(searches[group], budget, alone[group])
    return answers


def _of_step(engine: Engine, budget: Budget, step: FlowStep) -> JobAnswer:
    """Return the answer for a job that a flow creates later: it is tried alone, as if it existed."""
    cluster, target = engine.cluster, step.target
    unanswered = JobAnswer(target, "", Start.NEVER, after=step.after, gate=Gate.GANG.value, message=step.message)
    if step.body is None:
        return unanswered
    with cluster.trial():
        cluster.put_workload(step.body)
        JobControllers(cluster, engine.now, engine.job_registry).step()
        unanswered = replace(unanswered, queue=queue_of(cluster, target), start=Start.UNKNOWN)
        try:
            result = _alone(engine, budget, unanswered)
        except BudgetEndedError:
            return unanswered
    return result if result.start is Start.NEVER else replace(result, message=step.message)


def _search(trials: Trials, explanation: Explain | None, answer: JobAnswer) -> Search:
    """Return the search for remedies of a job; ``explanation`` is the job's in the cluster with all other jobs."""
    question = Question(trials.engine.cluster, trials.engine.config, answer.target, explanation)
    return Search(trials, question, answer.start is Start.AFTER)


def _searched(search: Search, budget: Budget, answer: JobAnswer) -> JobAnswer:
    """Return the answer with remedies."""
    remedies, is_complete = search.run(budget)
    ends = next((remedy for remedy in remedies if remedy.kind == "end"), None)
    after = tuple(text.removeprefix("end of ") for text in ends.parts) if ends is not None else ()
    return replace(answer, remedies=remedies, searched=is_complete, after=after)


def _alone(engine: Engine, budget: Budget, answer: JobAnswer) -> JobAnswer:
    """Return the answer after a run with all other jobs and pods removed."""
    target, cluster = answer.target, engine.cluster.once(_without_jobs)
    with cluster.trial():
        keys = objects_of(engine.cluster, target)
        cluster.copy(engine.cluster, keys)
        for pod in [engine.cluster.objects[key] for key in keys if key[0] == "Pod"]:
            if not is_over(pod):
                count_in_quotas(cluster, engine.cluster, pod, +1)
        run = replace(engine, cluster=cluster).run(budget, frozenset({target.group}), target.group)
        if target.group in run.started:
            return replace(answer, start=Start.AFTER)
        if answer.explanation is not None:
            run.explanations.setdefault(target.group, answer.explanation)
        gate, message = verdict(cluster, target, run)
    explanation = run.explanations.get(target.group)
    return replace(answer, start=Start.NEVER, gate=gate, message=message, explanation=explanation)


def _without_jobs(cluster: Cluster) -> Cluster:
    return without(cluster, is_of_job)


def verdict(cluster: Cluster, target: Target, run: Run) -> tuple[str, str]:
    """Return the gate that a job does not pass and the message: what keeps its pods from existing comes first."""
    if trouble := run.troubles.get(target.job):
        return Gate.GANG.value, trouble
    if scheduler := foreign_scheduler(cluster, target):
        return Gate.GANG.value, f'the pods have schedulerName "{scheduler}": volcanopy does not schedule them'
    if (explanation := run.explanations.get(target.group)) is not None:
        return explanation.gate, explanation.message
    if is_suspended(cluster, target):
        return Gate.GANG.value, "the job is suspended: spec.suspend is true"
    if target.job:
        state = ((cluster.objects["BatchJob", target.job].get("status") or {}).get("state")) or {}
        return Gate.GANG.value, str(state.get("message") or "not processed by the job controller")
    minimum, pods = minimum_of(cluster, target), len(cluster.pods_of_group(target.group))
    return Gate.GANG.value, f"{pods}/{minimum} required pods exist"
