"""Jobs that a cron job or flow creates later, each as the request by which its controller creates it.

A cron job or flow is admitted only if its jobs can be. Problems of a job are reported at the fields of the cron job or flow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, User, at, list_at
from volcanopy.admission.submitter import recorded
from volcanopy.api import names
from volcanopy.api.cron import CronBatchJob, TemplateMeta, longest_job_name
from volcanopy.api.flow import FlowJob, JobFlow, JobTemplate, job_spec
from volcanopy.api.model import PATH_PATTERN, InvalidObjectError, Json, ObjectMeta, Problem

MOST_TASKS = 2048
"""The jobs of a flow are checked up to this number of tasks in total; further ones are checked when they are created."""
_MOST_STEPS = 256
_FIELD = re.compile(r"spec\.(\w+)(?:\[(\d+)\])?(.*)", re.DOTALL)


@dataclass(frozen=True)
class FutureJob:
    """A job that is created later."""

    request: Request
    """The request that creates it, by the user of the review."""
    template: str
    """Path of its template in the reviewed object."""
    source: str = ""
    """The object that this field names, for messages; empty if the field is the template itself."""
    patch: Json = field(default_factory=dict)
    """Fields of its spec that the reviewed object changes, below ``patch.jobSpec``."""
    patch_path: str = ""
    author: User | None = None
    """The submitter of the template, who must be permitted to submit to its queue as well."""

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the job at the field of the reviewed object."""
        if path := self.path(problem.path):
            return replace(problem, path=path)
        return replace(problem, path=self.template, message=f"{self.source}: {problem}")

    def path(self, path: str) -> str:
        """Return the path of a field of the job in the reviewed object; empty if only another object has it."""
        if not self.source:
            return path if path == "metadata.name" else f"{self.template}.{path}"
        match = _FIELD.fullmatch(path)
        if match is None or match[1] not in self.patch:
            return ""
        name, index, rest = match.groups()
        if index is None:
            return f"{self.patch_path}.{name}{rest}"
        item_name = at(at(self.request.object, "spec", name)[int(index)], "name")
        if item_name is None:
            return f"{self.patch_path}.{name}[{index}]{rest}"
        # Lists of named items are merged by name, so the item has another position in the job.
        positions = [position for position, item in enumerate(self.patch[name]) if at(item, "name") == item_name]
        return f"{self.patch_path}.{name}[{positions[0]}]{rest}" if positions else ""


def job_of_cron(request: Request, cron: CronBatchJob) -> FutureJob:
    """Return the job that a cron job creates."""
    template = at(request.object, "spec", "jobTemplate")
    metadata = cron.spec.job_template.metadata or TemplateMeta()
    return FutureJob(_creation(request, longest_job_name(cron), metadata, at(template, "spec")), "spec.jobTemplate")


def jobs_of_flow(request: Request, context: Context) -> Iterator[FutureJob]:
    """Yield the jobs of a flow whose templates exist; none if the flow is not valid or the templates are unknown."""
    if context.job_templates is None:
        return
    try:
        flow = JobFlow.read(request.object or {}, unknown="forbid")
    except InvalidObjectError:
        return
    task_budget, jobs = MOST_TASKS, {id(job) for job in flow.spec.jobs}
    for number, step in enumerate(flow.spec.flows):
        template = context.job_templates.get(step.template_name)
        if template is None or id(step) not in jobs:
            continue
        spec = job_spec(step, template)
        task_budget -= len(list_at(spec, "tasks"))
        if task_budget < 0:
            return
        yield _job_of_step(request, flow, number, step, template, spec)


def _job_of_step(
    request: Request, flow: JobFlow, number: int, step: FlowJob, template: JobTemplate, spec: Json
) -> FutureJob:
    path = f"spec.flows[{number}]"
    return FutureJob(
        _creation(request, f"{flow.metadata.name}-{step.name}", template.metadata, spec),
        f"{path}.template",
        f'JobTemplate "{step.template_name}"',
        step.patch.job_spec if step.patch else {},
        f"{path}.patch.jobSpec",
        recorded({"metadata": {"annotations": template.metadata.annotations or {}}}),
    )


def missing_templates(request: Request, context: Context) -> Iterator[tuple[str, str]]:
    """Yield the path and name of each JobTemplate that a flow names and that does not exist."""
    templates, seen_templates = context.job_templates, set[str]()
    if templates is None:
        return
    for number, step in enumerate(list_at(request.object, "spec", "flows")):
        name = _template_name(step)
        if name and name not in seen_templates and name not in templates:
            yield f"spec.flows[{number}].template", name
        seen_templates.add(name)


def named_templates(request: Request) -> frozenset[str]:
    """Return the names of the JobTemplates of a flow that is created."""
    if request.key != (names.FLOW, "JobFlow", "CREATE"):
        return frozenset()
    templates = frozenset(map(_template_name, list_at(request.object, "spec", "flows")[:_MOST_STEPS]))
    return frozenset(name for name in templates if len(name) <= 253 and re.fullmatch(PATH_PATTERN, name))


def _template_name(step: object) -> str:
    name = at(step, "template") or at(step, "name")
    return name if isinstance(name, str) else ""


def _creation(request: Request, name: str, metadata: ObjectMeta | TemplateMeta, spec: Json) -> Request:
    """Return the request that creates a job with the labels and annotations of a template."""
    keyed = {"labels": metadata.labels or {}, "annotations": metadata.annotations or {}}
    manifest = request.job_manifest({"name": name or "job", "namespace": request.namespace or "default", **keyed}, spec)
    return replace(
        request, group=names.BATCH, kind="BatchJob", operation="CREATE", name=name, object=manifest, old=None
    )
