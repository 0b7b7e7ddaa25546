"""Dry runs of a job's pods on the API server: which pods to create, and the findings from the results.

The API server's validation of pods is not repeated here. :func:`dry_runs` returns the pods; the service creates each in
dry-run mode and passes the results in :attr:`Context.dry_runs`.

A dry run is the pod that the job controller would create, including plugins and volumes, without what differs from job to
job, so that jobs with the same template have equal dry runs. It has no owner, and a label that the webhook recognizes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from volcanopy.admission.context import AdmissionPolicy, Context, DryRun, DryRunResult
from volcanopy.admission.future_jobs import jobs_of_flow, named_templates
from volcanopy.admission.request import Request, at, size_problems
from volcanopy.admission.response import as_warning, with_severity
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec, TaskSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobTemplate
from volcanopy.api.job_alternatives import with_alternative
from volcanopy.api.model import InvalidObjectError, Json, ObjectMeta, Problem
from volcanopy.api.translation import with_api_names

_NAME = "dry-run"
_MAX_REPLICAS = 2
MAX_BYTES = 256 * 1024
"""Maximum size of the dry-run pods of one object as JSON; further pods are not checked."""
_MOST_OF_FLOW = 32
"""Maximum number of dry-run pods of one flow."""
_TOO_LARGE = f"the pods of the tasks exceed {MAX_BYTES} bytes in total"
_TEMPLATES: dict[tuple[str, str], tuple[str, Callable[[Request], BatchJobSpec]]] = {
    (names.BATCH, "BatchJob"): ("", lambda request: request.read(BatchJob).spec),
    (names.BATCH, "CronBatchJob"): (
        "spec.jobTemplate.",
        lambda request: request.read(CronBatchJob).spec.job_template.spec,
    ),
    (names.FLOW, "JobTemplate"): ("", lambda request: request.read(JobTemplate).spec),
}


def dry_runs(request: Request, context: Context) -> tuple[DryRun, ...]:
    """Return the pods to check; none for an object that is not valid or has not changed."""
    if context.make_pod is None or context.policy.pod_rejected == "allow":
        return ()
    if named_templates(request):
        return tuple(islice(_of_flow(request, context), _MOST_OF_FLOW))
    template = _TEMPLATES.get((request.group, request.kind))
    if template is None or request.operation not in {"CREATE", "UPDATE"} or request.object is None:
        return ()
    if request.old is not None and at(request.old, "spec") == at(request.object, "spec"):
        return ()  # the object was admitted before
    if request.operation == "UPDATE" and request.kind == "BatchJob":
        return ()  # templates of a job are immutable
    if any(True for _ in size_problems(request.object)):
        return ()
    prefix, read = template
    try:
        spec = read(request)
    except InvalidObjectError:
        return ()
    return tuple(_of_job(request, spec, prefix, context))


def _of_flow(request: Request, context: Context) -> Iterator[DryRun]:
    """Yield the pods of tasks that a flow changes; those of its templates were checked when these were created."""
    for job in jobs_of_flow(request, context):
        try:
            spec = job.request.read(BatchJob).spec
        except InvalidObjectError:
            continue
        for run in _of_job(job.request, spec, "", context) if job.patch else ():
            if path := job.path(run.path):
                yield replace(run, path=path, immediate=False)


def _of_job(request: Request, spec: BatchJobSpec, prefix: str, context: Context) -> Iterator[DryRun]:
    assert context.make_pod is not None
    source = ObjectMeta.model_validate(at(request.object, "metadata"))
    metadata = ObjectMeta(name=_NAME, namespace=request.namespace, labels=source.labels, annotations=source.annotations)
    tasks = [task.model_copy(update={"replicas": min(task.replicas, _MAX_REPLICAS)}) for task in spec.tasks]
    job = request.model(BatchJob)(metadata=metadata, spec=spec.model_copy(update={"tasks": tasks}))
    budget, templates, job_of_pods = MAX_BYTES, list[Json](), job
    make_pod = context.make_pod(job)
    for path, result, task in _tasks(job, prefix):
        if result is not job_of_pods:
            job_of_pods, make_pod = result, context.make_pod(result)
        pod: Json | str = _TOO_LARGE
        if budget > 0 and _size(task.template) <= budget:
            pod = make_pod(task)
        elif task.template in templates:
            continue
        templates.append(task.template)
        if isinstance(pod, dict):
            budget -= _size(pod)
            pod = with_api_names(_plain(pod, context), request.binding)
        if pod:
            yield DryRun(path, task.template, pod, immediate=request.kind == "BatchJob")


def _tasks(job: BatchJob, prefix: str) -> Iterator[tuple[str, BatchJob, TaskSpec]]:
    """Yield the tasks of a job with the paths of their templates; with alternatives those that result from these."""
    if not job.spec.alternatives:
        for number, task in enumerate(job.spec.tasks):
            yield f"{prefix}spec.tasks[{number}].template", job, task
        return
    for number, alternative in enumerate(job.spec.alternatives):
        result = with_alternative(job, alternative.name)
        positions = {task.name: position for position, task in enumerate(alternative.tasks)}
        for place, task in enumerate(result.spec.tasks):
            task_path = f"spec.alternatives[{number}].tasks[{positions[task.name]}]" if task.name in positions else ""
            if task_path or not number:
                yield f"{prefix}{task_path or f'spec.tasks[{place}]'}.template", result, task


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))


def _plain(pod: Json, context: Context) -> Json:
    """Return the pod without what differs from job to job, and without a missing PriorityClass, which is reported already."""
    source, spec = pod["metadata"], dict(pod["spec"])
    notes = {key: value for key, value in source["annotations"].items() if key not in _OWN_NOTES}
    labels = {key: value for key, value in source["labels"].items() if key not in _OWN_LABELS}
    metadata = {
        "name": _NAME,
        "namespace": source["namespace"],
        "labels": {**labels, names.DRY_RUN: "true"},
        "annotations": notes,
    }
    if "hostname" in spec:
        spec["hostname"] = _NAME
    priority = spec.get("priorityClassName")
    if priority and context.priority_classes is not None and priority not in context.priority_classes:
        del spec["priorityClassName"]
    return {**pod, "metadata": metadata, "spec": spec}


_OWN_NOTES = frozenset(
    {names.TASK_SPEC, names.TASK_INDEX, names.JOB_NAME, names.TEMPLATE_UID, names.GROUP_NAME, names.QUEUE_NAME}
)
_OWN_LABELS = frozenset({names.TASK_SPEC, names.TASK_INDEX, names.JOB_NAME})


def dry_run_findings(results: Iterable[tuple[DryRun, DryRunResult]], policy: AdmissionPolicy) -> Iterable[Problem]:
    """Yield the findings from the dry runs of an object's pods."""
    reported: set[str] = set()
    for run, result in results:
        yield from (as_warning(_translated(run, warning)) for warning in result.warnings)
        outcome = _outcome(result)
        if outcome == "rejected":
            final = run.immediate or result.code != 403
            yield from with_severity(_causes(run, result), policy.pod_rejected if final else "warn")
        elif outcome == "temporary":
            message = f"the API server currently rejects the pod: {_bare(result.message)}"
            yield as_warning(Problem(run.path, message))
        elif outcome == "unchecked" and result.message not in reported:
            reported.add(result.message)
            message = f"the API server could not check the pod: {_bare(result.message)}"
            yield from with_severity([Problem(run.path, message)], policy.pod_unchecked)


_TEMPORARY = re.compile(
    r"(exceeded|failed|insufficient) quota|status unknown for quota|error looking up service account|"
    r"no PriorityClass with name|because it is being terminated"
)
_NOT_PERMITTED = re.compile(r'cannot create resource "pods"|does not support dry run')


def _outcome(result: DryRunResult) -> str:
    """Return ``accepted``, ``rejected``, ``temporary`` (rejected for a reason that may pass) or ``unchecked``."""
    if 200 <= result.code < 300 or result.code == 409:
        return "accepted"  # the name is taken: everything else has been validated before
    if result.code in {0, 401, 404, 408, 429} or result.code >= 500 or _NOT_PERMITTED.search(result.message):
        return "unchecked"
    return "temporary" if result.code == 403 and _TEMPORARY.search(result.message) else "rejected"


def _causes(run: DryRun, result: DryRunResult) -> list[Problem]:
    if result.code == 422 and result.causes:
        return [_in_template(run, cause.path, cause.message) for cause in result.causes]
    return [Problem(run.path, f"the API server rejects the pod: {_bare(result.message)}")]


def _bare(message: str) -> str:
    """Return the message without the name of the dry-run pod."""
    return re.sub(rf'^(pods "{_NAME}" is forbidden|Pod "{_NAME}" is invalid): ', "", message)


def _translated(run: DryRun, warning: str) -> Problem:
    path, _, rest = warning.partition(": ")
    if rest and re.match(r"(spec|metadata)\.\S+$", path):
        return _in_template(run, path, rest)
    return Problem(run.path, warning)


_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def _in_template(run: DryRun, path: str, message: str) -> Problem:
    """Return a problem of the pod at the corresponding path of the template.

    List items are matched by name, because plugins add items. If nothing in the template corresponds, the path is the nearest
    parent and the message contains the path in the pod.
    """
    pod: Any = run.pod
    template: Any = run.template
    target = run.path
    for index, key in (match.groups() for match in _STEP.finditer(path)):
        if index is not None and index.isdecimal() and isinstance(pod, list):
            number = int(index)
            pod = pod[number] if number < len(pod) else None
            position = _position(pod, number, template if isinstance(template, list) else ())
            if position is None:
                return Problem(target, f"{path} of the pod: {message}")
            target, template = f"{target}[{position}]", template[position]
        elif index is not None:
            target, pod, template = f"{target}[{index}]", at(pod, index), at(template, index)
        else:
            target, pod, template = f"{target}.{key}", at(pod, key), at(template, key)
    return Problem(target, message)


def _position(item: Any, number: int, template: Sequence[Any]) -> int | None:
    """Return the position of a list item of the pod in the list of the template."""
    name = at(item, "name")
    if name is None:
        return number if number < len(template) else None
    positions = [position for position, entry in enumerate(template) if at(entry, "name") == name]
    return number if number in positions else positions[0] if positions else None
