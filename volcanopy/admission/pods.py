"""Validation of pods that are scheduled by volcanopy and belong to no job."""

from collections.abc import Iterator

from volcanopy.admission.access import entry_problems
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import extreme_problems, pod_findings, pod_request
from volcanopy.admission.jobs import budget_problems
from volcanopy.admission.queue_assignment import group_of
from volcanopy.admission.request import Request, annotations, at
from volcanopy.admission.response import AdmissionWarning
from volcanopy.admission.submitter import submitter
from volcanopy.admission.warnings import pod_warnings
from volcanopy.api import names
from volcanopy.api.model import Problem


def is_scheduled_here(request: Request, context: Context) -> bool:
    """Return whether the pod names one of volcanopy's schedulers."""
    return at(request.object, "spec", "schedulerName") in context.policy.scheduler_names


def validate_pod(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a pod that is created. The API server validates the pod itself."""
    if not is_scheduled_here(request, context):
        return
    notes, spec = annotations(request.object), at(request.object, "spec")
    yield from budget_problems(notes)
    yield from extreme_problems("spec", pod_request(spec))
    path, queue = f"metadata.annotations[{names.POD_QUEUE_NAME}]", notes.get(names.POD_QUEUE_NAME, "")
    if group := group_of(request.object):
        pod_group = (context.pod_groups or {}).get(f"{request.namespace}/{group}")
        if pod_group is None:
            return
        path, queue = f"metadata.annotations[{names.GROUP_NAME}]", pod_group.spec.queue
    name = queue or context.policy.default_queue
    yield from entry_problems(path, name, submitter(request, context.policy), request.namespace, context)
    yield from map(AdmissionWarning, pod_warnings(spec, "spec", context))
    yield from pod_findings(spec, context)
