"""An AdmissionReview in, an AdmissionReview out.

Every problem of an object is named at once, each with its path. What a schema can say the API server has checked
already (or will); here stands what needs more than the object alone, or more than CEL can say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from volcanopy.admission.context import Context
from volcanopy.admission.defaults import default_job
from volcanopy.admission.hierarchy_annotations import with_root
from volcanopy.admission.hypernodes import hyper_node_deletion_doubts, hyper_node_problems
from volcanopy.admission.pod_dry_run import tried_judgement
from volcanopy.admission.podgroups import group_problems
from volcanopy.admission.pods import is_ours, pod_problems
from volcanopy.admission.queue_assignment import placed, pod_placed
from volcanopy.admission.queues import queue_deletion_problems, queue_problems
from volcanopy.admission.request import Request
from volcanopy.admission.size_limits import bound_problems
from volcanopy.admission.submissions import (
    changed_job,
    kept_template,
    left_command,
    submitted_cron,
    submitted_flow,
    submitted_job,
)
from volcanopy.admission.submitter import origin_problems, stamped, submitter
from volcanopy.admission.verdict import Judgement, Verdict, Warned, patch_between
from volcanopy.api import names
from volcanopy.api.model import Json, Problem

Judge = Callable[[Request, Context], Judgement]
Change = Callable[[Request, Context], Json]

__all__ = ["Context", "mutate", "review", "validate"]


def review(admission_review: Json, context: Context) -> Json:
    """What both webhooks say together: the verdict on the object with everything filled in, and the patch that does so.

    Never raises for what is in the review: an object that cannot be read is refused in words.
    """
    request = Request.of(admission_review)
    if request is None:
        return _NO_REVIEW
    changed, patch = _changed(request, context)
    return Verdict.of(_judged(changed, context), patch).answer(request.uid)


def validate(admission_review: Json, context: Context) -> Json:
    """The answer of a validating webhook: the verdict on the object as it has become."""
    request = Request.of(admission_review)
    if request is None:
        return _NO_REVIEW
    return Verdict.of(_judged(request, context)).answer(request.uid)


def mutate(admission_review: Json, context: Context | None = None) -> Json:
    """The answer of a mutating webhook: the patch alone. The judgement is for the validating one, which comes after."""
    request = Request.of(admission_review)
    if request is None:
        return Verdict().answer("")
    return Verdict((), (), tuple(_changed(request, context or Context())[1])).answer(request.uid)


_NO_REVIEW = Verdict((Problem("request", "is required: this is no AdmissionReview"),)).answer("")


def _changed(request: Request, context: Context) -> tuple[Request, list[Json]]:
    """The request with everything filled in, and the patch."""
    change = _CHANGES.get(request.about)
    if change is None or request.object is None or any(True for _ in bound_problems(request.object)):
        return request, []
    after = change(request, context)
    return request.holding(after), patch_between(request.object, after)


def _judged(request: Request, context: Context) -> Iterator[Problem | Warned]:
    judge = _JUDGES.get(request.about)
    if judge is None:
        return
    if request.operation != "DELETE":
        if request.object is None:
            yield Problem("", "the request holds no object to judge")
            return
        if bounds := list(bound_problems(request.object)):
            yield from bounds
            return
        if request.about in _STAMPED and (request.kind != "Pod" or is_ours(request, context)):
            yield from origin_problems(request, context.policy)
    yield from judge(request, context)
    yield from tried_judgement(context.tried, context.policy)


def _job(request: Request, context: Context) -> Json:
    made = stamped(request, context.policy) or {}
    request = request.holding(made)
    made = placed(request, submitter(request, context.policy), context) or {}
    return default_job(made) if request.operation == "CREATE" else made


def _group(request: Request, context: Context) -> Json:
    request = request.holding(stamped(request, context.policy) or {})
    return placed(request, submitter(request, context.policy), context) or {}


def _pod(request: Request, context: Context) -> Json:
    if not is_ours(request, context):
        return request.object or {}
    request = request.holding(stamped(request, context.policy) or {})
    return pod_placed(request, submitter(request, context.policy), context) or {}


def _stamp(request: Request, context: Context) -> Json:
    return stamped(request, context.policy) or {}


def _root(request: Request, _: Context) -> Json:
    return with_root(request.object or {})


def _nothing(_: Request, __: Context) -> Iterable[Problem]:
    """What is judged for its origin alone."""
    return ()


_JUDGES: Mapping[tuple[str, str, str], Judge] = MappingProxyType(
    {
        (names.BATCH, "BatchJob", "CREATE"): submitted_job,
        (names.BATCH, "BatchJob", "UPDATE"): changed_job,
        (names.BATCH, "CronBatchJob", "CREATE"): submitted_cron,
        (names.BATCH, "CronBatchJob", "UPDATE"): submitted_cron,
        (names.FLOW, "JobFlow", "CREATE"): submitted_flow,
        (names.FLOW, "JobFlow", "UPDATE"): _nothing,
        (names.FLOW, "JobTemplate", "CREATE"): kept_template,
        (names.FLOW, "JobTemplate", "UPDATE"): kept_template,
        (names.BUS, "Command", "CREATE"): left_command,
        (names.SCHEDULING, "Queue", "CREATE"): queue_problems,
        (names.SCHEDULING, "Queue", "UPDATE"): queue_problems,
        (names.SCHEDULING, "Queue", "DELETE"): queue_deletion_problems,
        (names.SCHEDULING, "PodGroup", "CREATE"): group_problems,
        (names.SCHEDULING, "PodGroup", "UPDATE"): group_problems,
        (names.TOPOLOGY, "HyperNode", "CREATE"): hyper_node_problems,
        (names.TOPOLOGY, "HyperNode", "UPDATE"): hyper_node_problems,
        (names.TOPOLOGY, "HyperNode", "DELETE"): hyper_node_deletion_doubts,
        ("", "Pod", "CREATE"): pod_problems,
        ("", "Pod", "UPDATE"): _nothing,
    }
)
_CHANGES: Mapping[tuple[str, str, str], Change] = MappingProxyType(
    {
        (names.BATCH, "BatchJob", "CREATE"): _job,
        (names.BATCH, "BatchJob", "UPDATE"): _job,
        (names.BATCH, "CronBatchJob", "CREATE"): _stamp,
        (names.BATCH, "CronBatchJob", "UPDATE"): _stamp,
        (names.FLOW, "JobFlow", "CREATE"): _stamp,
        (names.FLOW, "JobFlow", "UPDATE"): _stamp,
        (names.SCHEDULING, "PodGroup", "CREATE"): _group,
        (names.SCHEDULING, "PodGroup", "UPDATE"): _group,
        (names.SCHEDULING, "Queue", "CREATE"): _root,
        ("", "Pod", "CREATE"): _pod,
    }
)
_STAMPED = frozenset(about for about in _CHANGES if about[1] != "Queue") | {("", "Pod", "UPDATE")}
