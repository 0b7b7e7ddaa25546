"""Reviews of admission requests: an AdmissionReview in, an AdmissionReview out.

A response lists every problem of an object with its path. The API server validates the schema; this module covers what
depends on other objects or cannot be expressed in CEL.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from volcanopy.admission.access import is_trusted, pod_with_queue, with_queue
from volcanopy.admission.annotation_values import value_problems
from volcanopy.admission.context import Context
from volcanopy.admission.hypernodes import validate_hyper_node, validate_hyper_node_deletion
from volcanopy.admission.jobs import with_defaults, with_queue_gates, with_task_names
from volcanopy.admission.ownership import controlled_by, deletion_problems, has_job_label
from volcanopy.admission.pod_dry_run import dry_run_findings
from volcanopy.admission.podgroups import (
    is_scheduled_here,
    validate_pod,
    validate_pod_group,
    validate_pod_update,
)
from volcanopy.admission.queues import validate_queue, validate_queue_deletion, with_root
from volcanopy.admission.request import Request, at, releases_finalizers, size_problems, unused_fields
from volcanopy.admission.response import AdmissionResponse, as_warning, patch_between
from volcanopy.admission.submitter import belongs_to_job, submitter, submitter_problems, with_submitter
from volcanopy.admission.workloads import (
    validate_command,
    validate_cron,
    validate_flow,
    validate_job,
    validate_job_update,
    validate_template,
)
from volcanopy.api import names
from volcanopy.api.model import InvalidObjectError, Json, Problem
from volcanopy.api.queue_gate import gate_of_scheduler, with_queue_gate

Validate = Callable[[Request, Context], Iterable[Problem]]
Mutate = Callable[[Request, Context], Json]


def review(admission_review: Json, context: Context) -> Json:
    """Return the combined response of both webhooks: the findings of the mutated object, and the patch.

    Never raises for the content of the review: an object that is not valid is rejected.
    """
    request = Request.of(admission_review)
    if request is None:
        return _NO_REQUEST
    mutated, patch = _mutated(request, context)
    return AdmissionResponse.of(_findings(mutated, context), patch).review(request.uid)


def validate(admission_review: Json, context: Context) -> Json:
    """Return the response of the validating webhook."""
    return verdict(Request.of(admission_review), context)


def verdict(request: Request | None, context: Context) -> Json:
    """Return the response of the validating webhook to a request, None for a review that has none."""
    if request is None:
        return _NO_REQUEST
    return AdmissionResponse.of(_findings(request, context)).review(request.uid)


def mutate(admission_review: Json, context: Context | None = None) -> Json:
    """Return the response of the mutating webhook: the patch only."""
    request = Request.of(admission_review)
    if request is None:
        return AdmissionResponse().review("")
    return AdmissionResponse((), (), tuple(_mutated(request, context or Context())[1])).review(request.uid)


def mutated(request: Request, context: Context) -> tuple[Request, list[Json]]:
    """Return the request with the mutated object, as the validating webhook gets it, and the patch."""
    after, patch = _mutated(request, context)
    if after.object is None or not patch:
        return request, []
    return request.with_written(request.in_its_api(after.object)), patch


_NO_REQUEST = AdmissionResponse(
    (Problem("request", "Required value: must be an AdmissionReview with a request"),)
).review("")


def _mutated(request: Request, context: Context) -> tuple[Request, list[Json]]:
    """Return the request with the mutated object, and the patch."""
    change = _MUTATIONS.get(request.key)
    if change is None or request.object is None or any(True for _ in size_problems(request.object)):
        return request, []
    after = change(request, context)
    patch = patch_between(request.written or {}, request.in_its_api(after))
    if request.kind == names.JOB_KIND and request.operation == "CREATE":
        patch += _without_managers(request.object)
    return request.with_object(after), patch


def _without_managers(manifest: Json | None) -> list[Json]:
    """Return the patch that removes the managers of a new object's fields, unless server-side apply created it.

    Of an object without them the API server records none at later updates, which is 40 percent of what a status costs it.
    Server-side apply compares its fields with those of other managers.
    """
    managers = at(manifest, "metadata", "managedFields")
    is_unused = (
        isinstance(managers, list) and managers and all(at(manager, "operation") == "Update" for manager in managers)
    )
    return [{"op": "remove", "path": "/metadata/managedFields"}] if is_unused else []


def _findings(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of the object and warnings about it, in the names of its API."""
    return map(request.problem_in_its_api, _own_findings(request.with_name(), context))


def _own_findings(request: Request, context: Context) -> Iterator[Problem]:
    validator = _VALIDATORS.get(request.key)
    if validator is None or releases_finalizers(request):
        return
    if request.operation != "DELETE":
        if request.object is None:
            yield Problem("request.object", "Required value")
            return
        if problems := list(size_problems(request.object)):
            yield from problems
            return
        if request.key in _WITH_VALUES:
            yield from _value_findings(request, context)
        if request.key in _WITH_SUBMITTER and _records_submitter(request, context):
            yield from submitter_problems(request, context.policy)
        yield from map(as_warning, unused_fields(request))
    try:
        yield from validator(request, context)
    except InvalidObjectError as error:
        yield from error.problems
    yield from dry_run_findings(context.dry_runs, context.policy)


def _value_findings(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the annotations and labels of the object and of its pod templates whose values are not valid."""
    if request.kind == "Pod" and not is_scheduled_here(request, context):
        return
    if is_trusted(request.user, context) and controlled_by(request.object):
        return  # made by the controllers for an object that was admitted before
    yield from value_problems(request.object, request.old)
    if request.operation != "CREATE" and request.kind == "BatchJob":
        return  # templates of a job are immutable
    steps = ("spec", "jobTemplate", "spec", "tasks") if request.kind == "CronBatchJob" else ("spec", "tasks")
    tasks, before = at(request.object, *steps), at(request.old, *steps)
    for number, task in enumerate(tasks if isinstance(tasks, list) and tasks != before else ()):
        path = f"{'.'.join(steps)}[{number}].template.metadata"
        yield from value_problems(at(task, "template"), None, path)


def _records_submitter(request: Request, context: Context) -> bool:
    """Return whether the object is one that the mutating webhook has recorded the submitter in."""
    if request.kind != "Pod":
        return True
    created_for_job = request.operation == "CREATE" and has_job_label(request, context)
    return is_scheduled_here(request, context) and not created_for_job


def _submitted(request: Request, context: Context) -> Json:
    return with_submitter(request, context.policy) or {}


def _template(request: Request, context: Context) -> Json:
    return with_task_names(_submitted(request, context))


def _cron(request: Request, context: Context) -> Json:
    cron = _submitted(request, context)
    template = at(cron, "spec", "jobTemplate")
    if not isinstance(template, dict):
        return cron
    return cron | {"spec": cron["spec"] | {"jobTemplate": with_task_names(template)}}


def _queued(request: Request, context: Context) -> Json:
    request = request.with_object(_submitted(request, context))
    # The PodGroup of a job is in the queue of the job.
    replaced = request.kind in request.binding.default_queue_is_none and not belongs_to_job(request)
    unset = names.DEFAULT_QUEUE if replaced else ""
    return with_queue(request, submitter(request, context.policy), context, unset) or {}


def _job(request: Request, context: Context) -> Json:
    job = with_task_names(_queued(request, context))
    if context.policy.queue_gates:
        job = with_queue_gates(job, request.binding.key(names.QUEUE_ALLOCATION_GATE))
    return with_defaults(job) if request.binding.writes_defaults else job


def _updated_job(request: Request, context: Context) -> Json:
    """Return the job with its defaults again: a manifest that has none of them may be applied or replaced once more."""
    unchanged = at(request.object, "spec") == at(request.old, "spec")
    return _queued(request, context) if unchanged else _job(request, context)


def _gated_pod(pod: Json) -> Json:
    return with_queue_gate(pod, gate_of_scheduler(str(at(pod, "spec", "schedulerName"))))


def _pod(request: Request, context: Context) -> Json:
    if not is_scheduled_here(request, context):
        return request.object or {}
    request = request.with_object(_submitted(request, context))
    if context.policy.queue_gates and request.object is not None:
        request = request.with_object(_gated_pod(request.object))
    return pod_with_queue(request, submitter(request, context.policy), context) or {}


def _queue(request: Request, _: Context) -> Json:
    return with_root(request.object or {})


_VALIDATORS: Mapping[tuple[str, str, str], Validate] = MappingProxyType(
    {
        (names.BATCH, "BatchJob", "CREATE"): validate_job,
        (names.BATCH, "BatchJob", "UPDATE"): validate_job_update,
        (names.BATCH, "CronBatchJob", "CREATE"): validate_cron,
        (names.BATCH, "CronBatchJob", "UPDATE"): validate_cron,
        (names.FLOW, "JobFlow", "CREATE"): validate_flow,
        (names.FLOW, "JobFlow", "UPDATE"): validate_flow,
        (names.FLOW, "JobTemplate", "CREATE"): validate_template,
        (names.FLOW, "JobTemplate", "UPDATE"): validate_template,
        (names.BUS, "Command", "CREATE"): validate_command,
        (names.SCHEDULING, "Queue", "CREATE"): validate_queue,
        (names.SCHEDULING, "Queue", "UPDATE"): validate_queue,
        (names.SCHEDULING, "Queue", "DELETE"): validate_queue_deletion,
        (names.SCHEDULING, "PodGroup", "CREATE"): validate_pod_group,
        (names.SCHEDULING, "PodGroup", "UPDATE"): validate_pod_group,
        (names.SCHEDULING, "PodGroup", "DELETE"): deletion_problems,
        (names.TOPOLOGY, "HyperNode", "CREATE"): validate_hyper_node,
        (names.TOPOLOGY, "HyperNode", "UPDATE"): validate_hyper_node,
        (names.TOPOLOGY, "HyperNode", "DELETE"): validate_hyper_node_deletion,
        ("", "Pod", "CREATE"): validate_pod,
        ("", "Pod", "UPDATE"): validate_pod_update,
    }
)
_MUTATIONS: Mapping[tuple[str, str, str], Mutate] = MappingProxyType(
    {
        (names.BATCH, "BatchJob", "CREATE"): _job,
        (names.BATCH, "BatchJob", "UPDATE"): _updated_job,
        (names.BATCH, "CronBatchJob", "CREATE"): _cron,
        (names.BATCH, "CronBatchJob", "UPDATE"): _cron,
        (names.FLOW, "JobFlow", "CREATE"): _submitted,
        (names.FLOW, "JobFlow", "UPDATE"): _submitted,
        (names.FLOW, "JobTemplate", "CREATE"): _template,
        (names.FLOW, "JobTemplate", "UPDATE"): _template,
        (names.SCHEDULING, "PodGroup", "CREATE"): _queued,
        (names.SCHEDULING, "PodGroup", "UPDATE"): _queued,
        (names.SCHEDULING, "Queue", "CREATE"): _queue,
        ("", "Pod", "CREATE"): _pod,
    }
)
_WITH_VALUES = frozenset(
    key for key in _VALIDATORS if key[1] in {"BatchJob", "CronBatchJob", "JobTemplate", "PodGroup", "Pod"}
) - {("", "Pod", "UPDATE"), (names.SCHEDULING, "PodGroup", "DELETE")}
_WITH_SUBMITTER = frozenset(key for key in _MUTATIONS if key[1] != "Queue") | {("", "Pod", "UPDATE")}
