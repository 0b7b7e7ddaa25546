"""Validation of BatchJobs, CronBatchJobs, JobFlows, JobTemplates and Commands against the state of the cluster."""

from collections.abc import Iterator
from typing import TypeVar

from volcanopy.admission.access import administration_problems, entry_problems, submission_problems
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import gang_of, job_findings
from volcanopy.admission.flows import cron_problems, flow_problems, template_problems
from volcanopy.admission.jobs import budget_problems, job_problems
from volcanopy.admission.queue_assignment import assigned_queue
from volcanopy.admission.request import Request, annotations, at
from volcanopy.admission.response import AdmissionWarning
from volcanopy.admission.submitter import submitter
from volcanopy.admission.user_limits import limit_findings, queued_problems
from volcanopy.admission.warnings import job_warnings, queue_warnings
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import InvalidObjectError, Problem


def validate_job(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a job that is created."""
    yield from validate_job_update(request, context)
    user, name = submitter(request, context.policy), at(request.object, "spec", "queue")
    if name is not None and not isinstance(name, str):
        return
    queue = name or context.policy.default_queue
    yield from entry_problems("spec.queue", queue, user, request.namespace, context)
    job = _parsed(BatchJob, request)
    if job is None:
        return
    yield from queued_problems("spec.queue", queue, user, context)
    yield from map(AdmissionWarning, job_warnings(job.spec, context))
    yield from job_findings(job.spec, context)
    yield from limit_findings("spec.queue", queue, gang_of(job.spec), user, context)


def validate_job_update(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a job that is updated, which is possible in a closed queue."""
    yield from job_problems(request.object or {}, context.check_plugins)
    yield from budget_problems(annotations(request.object))


def validate_cron(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a cron job, whose submitter must be permitted to submit its jobs."""
    yield from cron_problems(request.object or {}, context.check_plugins)
    cron = _parsed(CronBatchJob, request)
    if cron is None:
        return
    spec, user = cron.spec.job_template.spec, submitter(request, context.policy)
    path = "spec.jobTemplate.spec.queue"
    queue = spec.queue if "queue" in spec.model_fields_set else assigned_queue(user, request.namespace, context)
    yield from submission_problems(path, queue, user, request.namespace, context)
    yield from map(AdmissionWarning, queue_warnings(path, queue, context))
    yield from _template_warnings(spec, context, "spec.jobTemplate.")


def validate_flow(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a flow that is created. Its jobs are validated when they are created."""
    yield from flow_problems(request.object or {})
    steps = at(request.object, "spec", "flows")
    user = submitter(request, context.policy)
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        queue = at(step, "patch", "jobSpec", "queue")
        if isinstance(queue, str) and queue:
            path = f"spec.flows[{number}].patch.jobSpec.queue"
            yield from submission_problems(path, queue, user, request.namespace, context)
            yield from map(AdmissionWarning, queue_warnings(path, queue, context))


def validate_template(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a job template."""
    yield from template_problems(request.object or {}, context.check_plugins)
    template = _parsed(JobTemplate, request)
    if template is not None:
        if "queue" in template.spec.model_fields_set:
            yield from map(AdmissionWarning, queue_warnings("spec.queue", template.spec.queue, context))
        yield from _template_warnings(template.spec, context, "")


def validate_command(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if the user may not open or close the target queue."""
    target = at(request.object, "target")
    name = at(target, "name")
    if at(target, "kind") != "Queue" or not isinstance(name, str):
        return
    verb = {"OpenQueue": "open", "CloseQueue": "close"}.get(str(at(request.object, "action")), "command")
    for problem in administration_problems(name, request.user, context, f'{verb} queue "{name}"'):
        yield Problem("target.name", problem.message)


def _template_warnings(spec: BatchJobSpec, context: Context, prefix: str) -> Iterator[AdmissionWarning]:
    yield from map(AdmissionWarning, job_warnings(spec, context, prefix))
    for finding in job_findings(spec, context):
        problem = finding if isinstance(finding, Problem) else finding.problem
        yield AdmissionWarning(Problem(f"{prefix}{problem.path}", problem.message))


_T = TypeVar("_T", BatchJob, CronBatchJob, JobTemplate)


def _parsed(model: type[_T], request: Request) -> _T | None:
    """Return the parsed object, or None if it is not valid, which has been reported."""
    try:
        return model.read(request.object or {}, unknown="forbid")
    except InvalidObjectError:
        return None
