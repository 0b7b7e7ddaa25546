"""What is wrong with a pod that no job of ours has made and that names our scheduler, before it is in a PodGroup."""

from collections.abc import Iterator

from volcanopy.admission.context import Context
from volcanopy.admission.disruption_budgets import budget_problems
from volcanopy.admission.feasibility import pod_fits
from volcanopy.admission.queue_acceptance import entry_problems
from volcanopy.admission.queue_assignment import group_of
from volcanopy.admission.request import Request, annotations, at
from volcanopy.admission.submitter import submitter
from volcanopy.admission.verdict import Warned
from volcanopy.admission.warnings import pod_doubts
from volcanopy.api import names
from volcanopy.api.model import Problem


def is_ours(request: Request, context: Context) -> bool:
    """Whether the pod names one of our schedulers."""
    return at(request.object, "spec", "schedulerName") in context.policy.scheduler_names


def pod_problems(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """Everything that is wrong with a pod that is made. What every pod must be, the API server knows."""
    if not is_ours(request, context):
        return
    said = annotations(request.object)
    yield from budget_problems(said)
    path, queue = f"metadata.annotations[{names.POD_QUEUE_NAME}]", said.get(names.POD_QUEUE_NAME, "")
    if group := group_of(request.object):
        known = (context.pod_groups or {}).get(f"{request.namespace}/{group}")
        if known is None:
            return
        path, queue = f"metadata.annotations[{names.GROUP_NAME}]", known.spec.queue
    name = queue or context.policy.default_queue
    yield from entry_problems(path, name, submitter(request, context.policy), request.namespace, context, what="pods")
    spec = at(request.object, "spec")
    yield from map(Warned, pod_doubts(spec, "spec", context))
    found = pod_fits(spec, context)
    yield from found.problems
    yield from map(Warned, found.warnings)
