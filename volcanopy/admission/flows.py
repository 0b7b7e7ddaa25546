"""Validation of JobFlows, JobTemplates and CronBatchJobs beyond their schemas."""

from collections.abc import Iterable, Iterator

from volcanopy.admission.context import PluginCheck
from volcanopy.admission.jobs import job_problems
from volcanopy.api.batch import BatchJobSpec, dependency_cycle
from volcanopy.api.cron import CronBatchJob, Schedule, ScheduleError
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import (
    UNKNOWN_FIELD,
    InvalidObjectError,
    Json,
    Problem,
    duplicate,
    invalid,
    not_found,
    quoted,
    too_long,
)

_MAX_JOB_NAME = 60
_MAX_CRON_NAME = 52
_JOB_FIELDS = {field.alias or name for name, field in BatchJobSpec.model_fields.items()}


def flow_problems(manifest: Json) -> Iterator[Problem]:
    """Yield every problem of a flow. Its templates may be created later and are not checked."""
    try:
        flow = JobFlow.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    known = [step.name for step in flow.spec.flows]
    dependencies = []
    for number, step in enumerate(flow.spec.flows):
        path, job_name = f"spec.flows[{number}]", f"{flow.metadata.name}-{step.name}"
        if known.index(step.name) != number:
            yield duplicate(f"{path}.name", step.name)
        if len(job_name) > _MAX_JOB_NAME:
            yield too_long(f"{path}.name", job_name, _MAX_JOB_NAME, "shorten the name of the flow or job")
        for position, target in enumerate(step.depends_on.targets if step.depends_on else ()):
            if target in known:
                dependencies.append((step.name, target))
            else:
                fix = f"jobs of the flow are {quoted(sorted(set(known)))}"
                yield not_found(f"{path}.dependsOn.targets[{position}]", "job", target, fix)
        for field in sorted(set(step.patch.job_spec) - _JOB_FIELDS) if step.patch else ():
            yield Problem(f"{path}.patch.jobSpec.{field}", UNKNOWN_FIELD)
    if path := dependency_cycle(dependencies):
        yield Problem("spec.flows", f"Invalid value: dependsOn has a cycle: {path}")


def template_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Yield every problem of a job template, including those of its jobs."""
    try:
        template = JobTemplate.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from _job(template.metadata.name, manifest["spec"], plugins)


def cron_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Yield every problem of a cron job, including those of its jobs."""
    try:
        cron = CronBatchJob.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    name = cron.metadata.name
    if len(name) > _MAX_CRON_NAME:
        yield too_long("metadata.name", name, _MAX_CRON_NAME)
    yield from _schedule(cron)
    for problem in _job(f"{name}-{'0' * 8}", manifest["spec"]["jobTemplate"]["spec"], plugins):
        yield Problem(f"spec.jobTemplate.{problem.path}", problem.message)


def _schedule(cron: CronBatchJob) -> Iterator[Problem]:
    if "TZ=" in cron.spec.schedule:
        yield invalid("spec.schedule", cron.spec.schedule, "must not contain a time zone: use timeZone")
        return
    for schedule, time_zone in ((cron.spec.schedule, None), ("@daily", cron.spec.time_zone)):
        try:
            Schedule(schedule, time_zone)
        except ScheduleError as error:
            yield Problem(f"spec.{error.field}", str(error))


def _job(name: str, spec: Json, plugins: PluginCheck) -> Iterable[Problem]:
    manifest = {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name or "job", "namespace": "default"},
        "spec": spec,
    }
    return job_problems(manifest, plugins)
