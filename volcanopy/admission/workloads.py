"""Validation of BatchJobs, CronBatchJobs, JobFlows, JobTemplates and Commands beyond their schemas."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from volcanopy.admission.access import (
    administration_problems,
    assigned_queue,
    has_administrators,
    is_trusted,
    submission_problems,
)
from volcanopy.admission.alternatives import merged_templates, with_any_alternative
from volcanopy.admission.annotation_values import value_problems
from volcanopy.admission.context import Context
from volcanopy.admission.entry import QueueEntry, amount_findings, entry_problems
from volcanopy.admission.feasibility import gang_of, job_findings, node_findings
from volcanopy.admission.future_jobs import FutureJob, job_of_cron, jobs_of_flow, missing_templates
from volcanopy.admission.jobs import (
    budget_problems,
    immutability_problems,
    job_name_problems,
    job_warnings,
    parsed_job_problems,
    queue_warnings,
    scheduler_problems,
    with_defaults,
)
from volcanopy.admission.ownership import change_problems
from volcanopy.admission.powers import power_problems, protection_problems
from volcanopy.admission.request import Request, User, annotations, at, list_at, size_problems
from volcanopy.admission.response import as_warning
from volcanopy.admission.submitter import recorded, submitter, template_author
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.cron import CronBatchJob, Schedule, ScheduleError
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.graphs import dependency_cycle
from volcanopy.api.model import (
    UNKNOWN_FIELD,
    InvalidObjectError,
    Json,
    ObjectMeta,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    quoted,
    too_long,
)

_MAX_JOB_NAME = 60
_MAX_CRON_NAME = 52
_JOB_TEMPLATE = ("spec", "jobTemplate")
_JOB_FIELDS = {field.alias or name for name, field in BatchJobSpec.model_fields.items()}


def validate_job(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a job that is created."""
    yield from _job_findings(request, context)
    user, name = submitter(request, context.policy), at(request.object, "spec", "queue")
    if name is not None and not isinstance(name, str):
        return
    queue = name or context.policy.default_queue
    yield from entry_problems(QueueEntry("spec.queue", queue, user, request.namespace), context)
    if is_trusted(request.user, context) and (author := template_author(request.object)) is not None:
        path = f"metadata.annotations[{names.TEMPLATE_SUBMITTED_BY}]"
        yield from submission_problems(path, queue, author, request.namespace, context)
    try:
        spec = request.read(BatchJob).spec
    except InvalidObjectError:
        return  # reported above
    yield from _secret_arguments(spec)
    yield from scheduler_problems(spec, request, context)
    yield from map(as_warning, job_warnings(spec, context))
    yield from with_any_alternative(
        spec, lambda variant: chain(_gang_findings(variant, queue, user, context), node_findings(variant, context))
    )


def _gang_findings(spec: BatchJobSpec, queue: str, user: User, context: Context) -> Iterator[Problem]:
    """Yield findings if the job could never start because of the limits of its queue."""
    yield from amount_findings("spec.queue", queue, gang_of(spec), user, context)


def validate_job_update(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a job that is updated, which is possible in a closed queue.

    A job that is resumed enters its queue again; one that is scaled must still be able to start.
    """
    problems = list(_job_findings(request, context))
    yield from problems
    if problems or is_trusted(request.user, context):
        return
    spec, before = request.read(BatchJob).spec, at(request.old, "spec")
    user = recorded(request.old) or request.user
    if at(before, "suspend") is True and not spec.suspend:
        yield from entry_problems(QueueEntry("spec.queue", spec.queue, user, request.namespace), context)
    if any(at(request.object, "spec", name) != at(before, name) for name in ("tasks", "minAvailable")):
        yield from with_any_alternative(spec, lambda variant: _gang_findings(variant, spec.queue, user, context))


def _job_findings(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a job that is created or updated, apart from its entry into the queue."""
    problems = list(_job_problems(request, context))
    yield from problems
    if not problems and request.old is not None:
        versions = (request.object or {}, request.old)
        yield from immutability_problems(*map(with_defaults, versions) if request.binding.writes_defaults else versions)
    yield from budget_problems(annotations(request.object))
    user = submitter(request, context.policy) if request.operation == "CREATE" else request.user
    yield from _protection_problems(request, user, context)


def _job_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield every problem of a job that does not depend on the cluster."""
    try:
        job = request.read(BatchJob)
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from parsed_job_problems(job, context.check_plugins)


def _secret_arguments(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield the arguments of plugins that contain a private key, which everybody that may read the job could read."""
    for name, arguments in spec.plugins.items():
        for number, argument in enumerate(arguments):
            if argument.startswith("--ssh-private-key"):
                detail = "is readable with the job: leave it out, the plugin creates keys in a Secret of the job"
                yield forbidden(f"spec.plugins.{name}[{number}]", f"--ssh-private-key {detail}")


def _protection_problems(request: Request, user: User, context: Context) -> Iterator[Problem]:
    """Yield the protections from eviction in a job and its templates that the user may not set."""
    queue = at(request.object, "spec", "queue")
    name = queue if isinstance(queue, str) and queue else context.policy.default_queue
    yield from protection_problems(request.object, request.old, user, name, context)
    if request.operation != "CREATE":
        return  # templates of a job are immutable
    for number, task in enumerate(list_at(request.object, "spec", "tasks")):
        path = f"spec.tasks[{number}].template."
        yield from power_problems(at(task, "template"), None, user, name, context, path)
    for path, template in merged_templates(request.object):
        yield from power_problems(template, None, user, name, context, f"{path}.")


def validate_cron(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a cron job and its jobs, which its submitter must be permitted to submit."""
    cron = request.read(CronBatchJob)
    name = cron.metadata.name
    if len(name) > _MAX_CRON_NAME:
        yield too_long("metadata.name", name, _MAX_CRON_NAME)
    yield from _schedule(cron)
    is_new = request.operation == "CREATE" or at(request.old, *_JOB_TEMPLATE) != at(request.object, *_JOB_TEMPLATE)
    job = job_of_cron(request, cron)
    yield from map(job.located, _future_job_findings(job, context, is_new=is_new))
    yield from change_problems(request, context, *_JOB_TEMPLATE)


def _assigned_queue(request: Request, context: Context) -> str:
    return assigned_queue(submitter(request, context.policy), request.namespace, context)


def _future_job_findings(job: FutureJob, context: Context, *, is_new: bool = True) -> Iterator[Problem]:
    """Yield the problems of a job that is created later, and warnings about what may change until then.

    The rights of the user are checked if the job is new.
    """
    request, user = job.request, submitter(job.request, context.policy)
    if problems := list(size_problems(request.object or {})):
        yield from problems
        return
    yield from _job_problems(request, context)
    yield from budget_problems(annotations(request.object))
    try:
        spec = request.read(BatchJob).spec
    except InvalidObjectError:
        return  # reported above
    yield from _secret_arguments(spec)
    queue = spec.queue if "queue" in spec.model_fields_set else _assigned_queue(request, context)
    if is_new:
        yield from _protection_problems(request, user, context)
        for subject in dict.fromkeys((user, job.author or user)):
            yield from submission_problems("spec.queue", queue, subject, request.namespace, context)
    yield from _queue_findings("spec.queue", queue, context)
    yield from scheduler_problems(spec, request, context)
    yield from _job_warnings(spec, context)


def _queue_findings(path: str, queue: str, context: Context) -> Iterator[Problem]:
    """Yield warnings if the queue accepts no jobs now; the root queue never will."""
    findings = queue_warnings(path, queue, context)
    yield from findings if queue == names.ROOT_QUEUE else map(as_warning, findings)


def _schedule(cron: CronBatchJob) -> Iterator[Problem]:
    if "TZ=" in cron.spec.schedule:
        yield invalid("spec.schedule", cron.spec.schedule, "must not contain a time zone: use timeZone")
        return
    for schedule, time_zone in ((cron.spec.schedule, None), ("@daily", cron.spec.time_zone)):
        try:
            Schedule(schedule, time_zone)
        except ScheduleError as error:
            yield Problem(f"spec.{error.field}", str(error))


def validate_flow(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a flow that is created, and of those of its jobs whose templates exist; its jobs are immutable."""
    steps = list_at(request.object, "spec", "flows")
    if request.operation == "UPDATE":
        if steps != list_at(request.old, "spec", "flows"):
            yield forbidden("spec.flows", "field is immutable: create a new flow")
        return
    yield from flow_problems(request.object or {})
    user, checked = submitter(request, context.policy), set[str]()
    for job in jobs_of_flow(request, context):
        checked.add(job.patch_path)
        findings = _future_job_findings(job, context)
        yield from (
            job.located(problem) for problem in findings if problem.path != "metadata.name"
        )  # see flow_problems
    for number, step in enumerate(steps):
        patch, path = at(step, "patch", "jobSpec"), f"spec.flows[{number}].patch.jobSpec"
        for position, task in enumerate(list_at(patch, "tasks")):
            yield from value_problems(at(task, "template"), None, f"{path}.tasks[{position}].template.metadata")
        queue = at(patch, "queue")
        if isinstance(queue, str) and queue and path not in checked:
            yield from submission_problems(f"{path}.queue", queue, user, request.namespace, context)
            yield from _queue_findings(f"{path}.queue", queue, context)
    for path, name in missing_templates(request, context):
        yield as_warning(not_found(path, "JobTemplate", name, "its jobs are checked and created when it exists"))
    for path, name in _repeated(steps):
        yield as_warning(Problem(path, f'Duplicate value: "{name}": the first entry of this name counts'))


def _repeated(steps: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and name of each job of a flow whose name another one before it has."""
    seen_names: set[str] = set()
    for number, step in enumerate(steps):
        name = at(step, "name")
        if isinstance(name, str):
            if name in seen_names:
                yield f"spec.flows[{number}].name", name
            seen_names.add(name)


def flow_problems(manifest: Json) -> Iterator[Problem]:
    """Yield every problem of a flow that does not depend on its templates."""
    try:
        flow = JobFlow.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    if flow.spec.flows:
        yield from job_name_problems(
            f"{flow.metadata.name}-{flow.spec.flows[0].name}", dotted=flow.binding.dotted_job_names
        )
    job_names = [step.name for step in flow.spec.flows]
    dependencies = []
    for number, step in enumerate(flow.spec.flows):
        path, job_name = f"spec.flows[{number}]", f"{flow.metadata.name}-{step.name}"
        if job_names.index(step.name) != number and not flow.spec.may_repeat:
            yield duplicate(f"{path}.name", step.name)
        if len(job_name) > _MAX_JOB_NAME:
            yield too_long(f"{path}.name", job_name, _MAX_JOB_NAME, "shorten the name of the flow or job")
        for position, target in enumerate(step.depends_on.targets if step.depends_on else ()):
            if target in job_names:
                dependencies.append((step.name, target))
            else:
                fix = f"jobs of the flow are {quoted(sorted(set(job_names)))}"
                yield not_found(f"{path}.dependsOn.targets[{position}]", "job", target, fix)
        for field in sorted(set(step.patch.job_spec) - _JOB_FIELDS) if step.patch else ():
            yield Problem(f"{path}.patch.jobSpec.{field}", UNKNOWN_FIELD)
    if path := dependency_cycle(dependencies):
        yield Problem("spec.flows", f"Invalid value: dependsOn has a cycle: {path}")


def validate_template(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a job template and its jobs."""
    template = request.read(JobTemplate)
    metadata = ObjectMeta(name=template.metadata.name or "job", namespace="default")
    job = request.model(BatchJob)(metadata=metadata, spec=template.spec)
    yield from parsed_job_problems(job, context.check_plugins)
    yield from _secret_arguments(template.spec)
    yield from scheduler_problems(template.spec, request, context)
    yield from change_problems(request, context, "spec")
    if "queue" in template.spec.model_fields_set:
        yield from _queue_findings("spec.queue", template.spec.queue, context)
    yield from _job_warnings(template.spec, context)


def _job_warnings(spec: BatchJobSpec, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a job that is created later."""
    yield from map(as_warning, job_warnings(spec, context))
    yield from map(as_warning, with_any_alternative(spec, lambda result: job_findings(result, context)))


def validate_command(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if the user may not change the target, or open or close the target queue.

    A queue is changed by its administrators or, if it has none, by users that may update it.
    """
    target = at(request.object, "target")
    kind, name = at(target, "kind"), at(target, "name")
    if not isinstance(name, str):
        return
    administered = kind == "Queue" and has_administrators(name, context)
    if context.may_change_target is False and not administered and not is_trusted(request.user, context):
        yield forbidden(
            "target.name", f'user "{request.user.name}" may not update {kind} "{name}", which a Command for it requires'
        )
        return
    if kind != "Queue":
        return
    verb = {"OpenQueue": "open", "CloseQueue": "close"}.get(str(at(request.object, "action")), "command")
    for problem in administration_problems(name, request.user, context, f'{verb} queue "{name}"'):
        yield Problem("target.name", problem.message)
