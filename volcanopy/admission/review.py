"""An AdmissionReview in, an AdmissionReview out.

Every problem of an object is named at once, each with its path. What a schema can say the API server has checked
already (or will); here stands what needs more than the object alone, or more than CEL can say.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volcanopy.admission.defaults import default_job
from volcanopy.admission.flows import cron_problems, flow_problems, template_problems
from volcanopy.admission.jobs import job_problems
from volcanopy.admission.plugins import PluginCheck, no_plugins
from volcanopy.admission.queues import queue_deletion_problems, queue_problems
from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.api.model import Json, Problem


@dataclass(frozen=True)
class Context:
    """What is known of the cluster, and of the job plugins, when an object is judged.

    ``queues`` is None when they are not known (no connection): nothing is refused for its queue then.
    ``check_plugins`` gives the problems of a job's ``spec.plugins``.
    """

    queues: Mapping[str, Queue] | None = None
    check_plugins: PluginCheck = field(default=no_plugins)


Judge = Callable[[Json, Context], Iterable[Problem]]
Change = Callable[[Json], Json]


def review(admission_review: Json, context: Context) -> Json:
    """The answer to an AdmissionReview: allowed or not, why not, and the patch of what is defaulted.

    Never raises for what is in the review: an object that cannot be read is refused in words.
    """
    asked = _Asked.of(admission_review)
    if asked is None:
        return _answer("", [Problem("request", "is required: this is no AdmissionReview")])
    judge = _JUDGES.get(asked.about)
    if judge is None:
        return _answer(asked.uid, [])
    if asked.object is None:
        return _answer(asked.uid, [Problem("", "the request holds no object to judge")])
    changed = _changed(asked, asked.object)
    try:
        problems = list(judge(changed, context))
    except RecursionError:
        problems = [Problem("", "the object is nested too deeply")]
    return _answer(asked.uid, problems, _patch(asked.object, changed))


def mutate(admission_review: Json) -> Json:
    """The answer of a mutating webhook: the patch alone. The judgement is for the validating one, which comes after."""
    asked = _Asked.of(admission_review)
    if asked is None or asked.object is None:
        return _answer(asked.uid if asked else "", [])
    return _answer(asked.uid, [], _patch(asked.object, _changed(asked, asked.object)))


@dataclass(frozen=True)
class _Asked:
    """What a review asks: (group, kind, operation) and the object, as far as they can be read."""

    uid: str
    about: tuple[str, str, str]
    object: Json | None

    @classmethod
    def of(cls, admission_review: Json) -> "_Asked | None":
        request = admission_review.get("request")
        if not isinstance(request, Mapping):
            return None
        kind = request.get("kind")
        kind = kind if isinstance(kind, Mapping) else {}
        given = (request.get("uid"), kind.get("group"), kind.get("kind"), request.get("operation"))
        uid, group, name, operation = (text if isinstance(text, str) else "" for text in given)
        found = request.get("oldObject" if operation == "DELETE" else "object")
        return cls(uid, (group, name, operation), found if isinstance(found, dict) else None)


def _changed(asked: _Asked, found: Json) -> Json:
    change = _CHANGES.get(asked.about)
    return change(found) if change else found


def _job(manifest: Json, context: Context) -> Iterable[Problem]:
    return job_problems(manifest, context.queues, context.check_plugins)


def _changed_job(manifest: Json, context: Context) -> Iterable[Problem]:
    # A queue may close behind a job that is in it: the job can still be changed.
    return job_problems(manifest, None, context.check_plugins)


def _queue(manifest: Json, context: Context) -> Iterable[Problem]:
    return queue_problems(manifest, context.queues)


def _deleted_queue(manifest: Json, context: Context) -> Iterable[Problem]:
    return queue_deletion_problems(manifest, context.queues)


def _flow(manifest: Json, _: Context) -> Iterable[Problem]:
    return flow_problems(manifest)


def _template(manifest: Json, context: Context) -> Iterable[Problem]:
    return template_problems(manifest, context.check_plugins)


def _cron(manifest: Json, context: Context) -> Iterable[Problem]:
    return cron_problems(manifest, context.check_plugins)


_JUDGES: Mapping[tuple[str, str, str], Judge] = MappingProxyType(
    {
        (names.BATCH, "BatchJob", "CREATE"): _job,
        (names.BATCH, "BatchJob", "UPDATE"): _changed_job,
        (names.BATCH, "CronBatchJob", "CREATE"): _cron,
        (names.BATCH, "CronBatchJob", "UPDATE"): _cron,
        (names.FLOW, "JobFlow", "CREATE"): _flow,
        (names.FLOW, "JobTemplate", "CREATE"): _template,
        (names.FLOW, "JobTemplate", "UPDATE"): _template,
        (names.SCHEDULING, "Queue", "CREATE"): _queue,
        (names.SCHEDULING, "Queue", "UPDATE"): _queue,
        (names.SCHEDULING, "Queue", "DELETE"): _deleted_queue,
    }
)
_CHANGES: Mapping[tuple[str, str, str], Change] = MappingProxyType({(names.BATCH, "BatchJob", "CREATE"): default_job})


def _patch(before: Json, after: Json) -> list[Json]:
    """The JSON patch from one object to the other, by whole fields of the spec."""
    old = before.get("spec")
    new = after.get("spec")
    if old == new or not isinstance(old, dict) or not isinstance(new, dict):
        return []
    return [
        {"op": "replace" if key in old else "add", "path": f"/spec/{key}", "value": value}
        for key, value in new.items()
        if key not in old or old[key] != value
    ]


def _answer(uid: str, problems: list[Problem], patch: list[Json] | None = None) -> Json:
    response: Json = {"uid": uid, "allowed": not problems}
    if problems:
        response["status"] = {"code": 422, "reason": "Invalid", "message": "; ".join(map(str, problems))}
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
