"""What is wrong with what makes jobs: flows, job templates, cron jobs."""

from collections.abc import Iterable, Iterator

from volcanopy.admission.jobs import job_problems
from volcanopy.admission.plugins import PluginCheck
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.dependencies import cycle
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import InvalidObjectError, Json, Problem
from volcanopy.api.schedules import Schedule, ScheduleError

_LONGEST_JOB = 60
_LONGEST_CRON = 52


def flow_problems(manifest: Json) -> Iterator[Problem]:
    """Everything that is wrong with a flow; its templates may be made later, so they are not looked for."""
    try:
        flow = JobFlow.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    known = [step.name for step in flow.spec.flows]
    waits = []
    for number, step in enumerate(flow.spec.flows):
        if known.index(step.name) != number:
            yield Problem(f"spec.flows[{number}].name", f"there is more than one job {step.name!r}")
        if len(f"{flow.metadata.name}-{step.name}") > _LONGEST_JOB:
            told = f"its job would be called {flow.metadata.name}-{step.name}: {_LONGEST_JOB} characters are allowed"
            yield Problem(f"spec.flows[{number}].name", told)
        for position, target in enumerate(step.depends_on.targets if step.depends_on else ()):
            if target in known:
                waits.append((step.name, target))
            else:
                path = f"spec.flows[{number}].dependsOn.targets[{position}]"
                yield Problem(path, f"the flow has no job {target!r}: choose from {', '.join(sorted(set(known)))}")
        if step.patch is not None:
            unknown = sorted(set(step.patch.job_spec) - _JOB_FIELDS)
            for field in unknown:
                path = f"spec.flows[{number}].patch.jobSpec.{field}"
                yield Problem(path, "Unknown field: correct its name or remove it")
    if way := cycle(waits):
        yield Problem("spec.flows", f"jobs wait for each other in a circle: {way}")


_JOB_FIELDS = {field.alias or name for name, field in BatchJobSpec.model_fields.items()}


def template_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Everything that is wrong with a job template: what would be wrong with a job that is made from it."""
    try:
        template = JobTemplate.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from _job(template.metadata.name, manifest["spec"], plugins)


def cron_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Everything that is wrong with a cron job: its schedule, and what would be wrong with its jobs."""
    try:
        cron = CronBatchJob.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    if len(cron.metadata.name) > _LONGEST_CRON:
        told = f"has {len(cron.metadata.name)} characters: {_LONGEST_CRON} are allowed, its jobs' names add 11"
        yield Problem("metadata.name", told)
    yield from _schedule(cron)
    made = f"{cron.metadata.name}-{'0' * 8}"
    for problem in _job(made, manifest["spec"]["jobTemplate"]["spec"], plugins):
        yield Problem(f"spec.jobTemplate.{problem.path}", problem.message)


def _schedule(cron: CronBatchJob) -> Iterator[Problem]:
    if "TZ=" in cron.spec.schedule:
        yield Problem("spec.schedule", "give the time zone in spec.timeZone, not in the schedule")
        return
    try:
        Schedule(cron.spec.schedule)
    except ScheduleError as error:
        yield Problem("spec.schedule", str(error))
    try:
        Schedule("@daily", cron.spec.time_zone)
    except ScheduleError as error:
        yield Problem("spec.timeZone", str(error))


def _job(name: str, spec: Json, plugins: PluginCheck) -> Iterable[Problem]:
    manifest = {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name or "job", "namespace": "default"},
        "spec": spec,
    }
    return job_problems(manifest, plugins)
