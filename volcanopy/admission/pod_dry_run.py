"""Whether the API server would take a job's pods: which are to be tried, and what its answers mean.

The API server's rules for pods are not repeated here, since no copy stays right. What must be asked comes out as data; the
service sends each pod as one that is not to be kept (``dryRun``) and hands the answers back in :attr:`Context.tried`.

A trial is the pod that the job controller would make, plugins and volumes included, without what differs from job to job:
so that jobs of the same template ask the same. It belongs to nobody and has a label by which our own webhook knows it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from volcanopy.admission.context import Answer, Context, Trial
from volcanopy.admission.policy import AdmissionPolicy
from volcanopy.admission.request import Request, at
from volcanopy.admission.size_limits import bound_problems
from volcanopy.admission.verdict import Warned
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobTemplate
from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import InvalidObjectError, Json, Problem

_NAME = "trial"
_MOST_REPLICAS = 2
MOST_BYTES = 256 * 1024
"""Of the pods of one object, as JSON; what comes after so many is not tried."""
_TOO_LARGE = f"the pods of the tasks have more than {MOST_BYTES} bytes together"
_TEMPLATES: dict[tuple[str, str], tuple[str, Callable[[Json], BatchJobSpec]]] = {
    (names.BATCH, "BatchJob"): ("", lambda found: BatchJob.read(found, unknown="forbid").spec),
    (names.BATCH, "CronBatchJob"): (
        "spec.jobTemplate.",
        lambda found: CronBatchJob.read(found, unknown="forbid").spec.job_template.spec,
    ),
    (names.FLOW, "JobTemplate"): ("", lambda found: JobTemplate.read(found, unknown="forbid").spec),
}


def trials(request: Request, context: Context) -> tuple[Trial, ...]:
    """The pods that the API server is to be asked about. None for what cannot be read, or has not changed."""
    found = _TEMPLATES.get((request.group, request.kind))
    if found is None or context.make_pod is None or context.policy.pod_refused == "allow":
        return ()
    if request.operation not in {"CREATE", "UPDATE"} or request.object is None:
        return ()
    if request.old is not None and at(request.old, "spec") == at(request.object, "spec"):
        return ()  # nobody is kept from writing to what was let in long ago
    if request.operation == "UPDATE" and request.kind == "BatchJob":
        return ()  # templates of a job are fixed
    if any(True for _ in bound_problems(request.object)):
        return ()
    prefix, read = found
    try:
        spec = read(request.object)
    except InvalidObjectError:
        return ()
    return tuple(_of_job(request, spec, prefix, context))


def _of_job(request: Request, spec: BatchJobSpec, prefix: str, context: Context) -> Iterator[Trial]:
    assert context.make_pod is not None
    given = ObjectMeta.model_validate(at(request.object, "metadata"))
    metadata = ObjectMeta(name=_NAME, namespace=request.namespace, labels=given.labels, annotations=given.annotations)
    tasks = [task.model_copy(update={"replicas": min(task.replicas, _MOST_REPLICAS)}) for task in spec.tasks]
    job = BatchJob(metadata=metadata, spec=spec.model_copy(update={"tasks": tasks}))
    make_pod, left = context.make_pod(job), MOST_BYTES
    for number, task in enumerate(tasks):
        path = f"{prefix}spec.tasks[{number}].template"
        pod: Json | str = _TOO_LARGE
        if left > 0 and _size(task.template) <= left:
            pod = make_pod(task)
        elif any(task.template == other.template for other in tasks[:number]):
            continue
        if isinstance(pod, dict):
            left -= _size(pod)
            pod = _plain(pod, context)
        if pod:
            yield Trial(path, task.template, pod, soon=request.kind == "BatchJob")


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))


def _plain(pod: Json, context: Context) -> Json:
    """The pod without what differs from job to job, and without a priority that there is none of: that is told already."""
    said, spec = pod["metadata"], dict(pod["spec"])
    notes = {key: value for key, value in said["annotations"].items() if key not in _OWN_NOTES}
    labels = {key: value for key, value in said["labels"].items() if key not in _OWN_LABELS}
    metadata = {
        "name": _NAME,
        "namespace": said["namespace"],
        "labels": {**labels, names.TRIAL: "true"},
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


def tried_judgement(tried: Iterable[tuple[Trial, Answer]], policy: AdmissionPolicy) -> Iterator[Problem | Warned]:
    """What the answers say about the object whose pods were tried."""
    told: set[str] = set()
    for trial, answer in tried:
        yield from (Warned(_translated(trial, one)) for one in answer.warnings)
        meaning = _meaning(answer)
        if meaning == "refused":
            final = policy.pod_refused == "refuse" and (trial.soon or answer.code != 403)
            for problem in _reasons(trial, answer):
                yield problem if final else Warned(problem)
        elif meaning == "passing":
            yield Warned(Problem(trial.path, f"such a pod would be refused at this moment: {_bare(answer.message)}"))
        elif meaning == "untried" and policy.pod_untried != "allow" and answer.message not in told:
            told.add(answer.message)
            why = f"the API server could not be asked whether it takes such a pod: {_bare(answer.message)}"
            problem = Problem(trial.path, why)
            yield problem if policy.pod_untried == "refuse" else Warned(problem)


_PASSING = re.compile(
    r"(exceeded|failed|insufficient) quota|status unknown for quota|error looking up service account|"
    r"no PriorityClass with name|because it is being terminated"
)
_NOT_ASKED = re.compile(r'cannot create resource "pods"|does not support dry run')


def _meaning(answer: Answer) -> str:
    """``taken``, ``refused`` (each such pod is), ``passing`` (refused for what may change by itself) or ``untried``."""
    if 200 <= answer.code < 300 or answer.code == 409:
        return "taken"  # a pod of that name is there: all else has been looked at before
    if answer.code in {0, 401, 404, 408, 429} or answer.code >= 500 or _NOT_ASKED.search(answer.message):
        return "untried"
    return "passing" if answer.code == 403 and _PASSING.search(answer.message) else "refused"


def _reasons(trial: Trial, answer: Answer) -> list[Problem]:
    if answer.code == 422 and answer.causes:
        return [_placed(trial, cause.path, cause.message) for cause in answer.causes]
    return [Problem(trial.path, f"the API server refuses such a pod: {_bare(answer.message)}")]


def _bare(message: str) -> str:
    """The message without the name of the pod, which is nobody's."""
    return re.sub(rf'^(pods "{_NAME}" is forbidden|Pod "{_NAME}" is invalid): ', "", message)


def _translated(trial: Trial, warning: str) -> Problem:
    path, _, rest = warning.partition(": ")
    if rest and re.match(r"(spec|metadata)\.\S+$", path):
        return _placed(trial, path, rest)
    return Problem(trial.path, warning)


_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def _placed(trial: Trial, path: str, says: str) -> Problem:
    """What is said of a place in the pod, said of the place in the template that it comes from.

    Containers are found by their names, since plugins put others beside them. Where nothing in the template corresponds, the
    nearest place above is named, and the pod's own path in the words.
    """
    made: Any = trial.pod
    wrote: Any = trial.template
    there = trial.path
    for index, key in (found.groups() for found in _STEP.finditer(path)):
        if index is not None and index.isdecimal() and isinstance(made, list):
            number = int(index)
            made = made[number] if number < len(made) else None
            place = _same(made, number, wrote if isinstance(wrote, list) else ())
            if place is None:
                return Problem(there, f"{path} of the pod: {says}")
            there, wrote = f"{there}[{place}]", wrote[place]
        elif index is not None:
            there, made, wrote = f"{there}[{index}]", at(made, index), at(wrote, index)
        else:
            there, made, wrote = f"{there}.{key}", at(made, key), at(wrote, key)
    return Problem(there, says)


def _same(made: Any, number: int, wrote: Sequence[Any]) -> int | None:
    """Where in a list of the template the entry of the pod's list stands."""
    name = at(made, "name")
    if name is None:
        return number if number < len(wrote) else None
    places = [place for place, one in enumerate(wrote) if at(one, "name") == name]
    return number if number in places else places[0] if places else None
