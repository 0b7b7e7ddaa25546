"""What is judged beyond the object itself when somebody submits a job, or something that makes jobs: queue, room, doubts."""

from collections.abc import Iterator
from typing import TypeVar

from volcanopy.admission.access import administration_problems, submission_problems
from volcanopy.admission.context import Context
from volcanopy.admission.disruption_budgets import budget_problems
from volcanopy.admission.feasibility import gang_of, job_fits
from volcanopy.admission.flows import cron_problems, flow_problems, template_problems
from volcanopy.admission.jobs import job_problems
from volcanopy.admission.queue_acceptance import entry_problems
from volcanopy.admission.queue_assignment import landing
from volcanopy.admission.request import Request, annotations, at
from volcanopy.admission.submitter import submitter
from volcanopy.admission.user_limits import allowance, queued_problems
from volcanopy.admission.verdict import Warned
from volcanopy.admission.warnings import job_doubts, queue_doubts
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import InvalidObjectError, Problem


def submitted_job(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """A job that is made."""
    yield from changed_job(request, context)
    user, name = submitter(request, context.policy), at(request.object, "spec", "queue")
    if name is not None and not isinstance(name, str):
        return
    queue = name or context.policy.default_queue
    yield from entry_problems("spec.queue", queue, user, request.namespace, context)
    job = _read(BatchJob, request)
    if job is None:
        return
    yield from queued_problems("spec.queue", queue, user, context)
    yield from map(Warned, job_doubts(job.spec, context))
    for found in (job_fits(job.spec, context), allowance("spec.queue", queue, gang_of(job.spec), user, context)):
        yield from found.problems
        yield from map(Warned, found.warnings)


def changed_job(request: Request, context: Context) -> Iterator[Problem]:
    """A job that is changed: its queue may have closed behind it, and it can still be changed."""
    yield from job_problems(request.object or {}, context.check_plugins)
    yield from budget_problems(annotations(request.object))


def submitted_cron(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """A cron job that is made or changed: whoever may not submit its jobs may not leave that to a clock."""
    yield from cron_problems(request.object or {}, context.check_plugins)
    cron = _read(CronBatchJob, request)
    if cron is None:
        return
    spec, user = cron.spec.job_template.spec, submitter(request, context.policy)
    path = "spec.jobTemplate.spec.queue"
    queue = spec.queue if "queue" in spec.model_fields_set else landing(user, request.namespace, context)
    yield from submission_problems(path, queue, user, request.namespace, context)
    yield from map(Warned, queue_doubts(path, queue, context))
    yield from _made(spec, context, "spec.jobTemplate.")


def submitted_flow(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """A flow that is made. Its jobs are judged when they are made, as those of whoever made the flow."""
    yield from flow_problems(request.object or {})
    steps = at(request.object, "spec", "flows")
    user = submitter(request, context.policy)
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        queue = at(step, "patch", "jobSpec", "queue")
        if isinstance(queue, str) and queue:
            path = f"spec.flows[{number}].patch.jobSpec.queue"
            yield from submission_problems(path, queue, user, request.namespace, context)
            yield from map(Warned, queue_doubts(path, queue, context))


def kept_template(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """A job template: it submits nothing by itself."""
    yield from template_problems(request.object or {}, context.check_plugins)
    template = _read(JobTemplate, request)
    if template is not None:
        if "queue" in template.spec.model_fields_set:
            yield from map(Warned, queue_doubts("spec.queue", template.spec.queue, context))
        yield from _made(template.spec, context, "")


def left_command(request: Request, context: Context) -> Iterator[Problem]:
    """A command that opens or closes a queue: for its administrators."""
    target = at(request.object, "target")
    name = at(target, "name")
    if at(target, "kind") != "Queue" or not isinstance(name, str):
        return
    doing = {"OpenQueue": "open", "CloseQueue": "close"}.get(str(at(request.object, "action")), "command")
    for problem in administration_problems(name, request.user, context, doing=f"{doing} queue {name!r}"):
        yield Problem("target.name", problem.message)


def _made(spec: BatchJobSpec, context: Context, prefix: str) -> Iterator[Warned]:
    yield from map(Warned, job_doubts(spec, context, prefix))
    found = job_fits(spec, context)
    for one in (*found.problems, *found.warnings):
        yield Warned(Problem(f"{prefix}{one.path}", one.message))


_T = TypeVar("_T", BatchJob, CronBatchJob, JobTemplate)


def _read(model: type[_T], request: Request) -> _T | None:
    """The object, if it can be read; what is wrong otherwise has been told."""
    try:
        return model.read(request.object or {}, unknown="forbid")
    except InvalidObjectError:
        return None
