"""Jobs of a flow: what is observed of them, their manifests, the dependencies that they wait for, and the effects of a plan."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec, TaskSpec
from volcanopy.api.core import Pod
from volcanopy.api.flow import FlowJob, FlowJobStatus, JobFlow, JobTemplate, Probe, job_spec
from volcanopy.api.model import InvalidObjectError, Json
from volcanopy.jobcontroller.naming import inherited_annotations, job_manifest
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, Plan, RecordEvent, UpdateStatus


class PodProbe(NamedTuple):
    """A probe of one pod: an HTTP request if there is a path, otherwise a TCP connection."""

    pod: str
    ip: str
    port: int
    path: str = ""
    header: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        return f"GET {self.path} on port {self.port}" if self.path else f"port {self.port}"


@dataclass(frozen=True)
class FlowObserved:
    """What exists of a flow.

    ``jobs`` are the jobs that it controls, by name; ``pods`` their pods, by job; ``answers`` the results of the probes of
    earlier plans; ``trouble`` the last error of the API server, empty after success.
    """

    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    jobs: Mapping[str, BatchJob] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    answers: Mapping[PodProbe, bool] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True)
class CommandJob:
    """Create a Command for a job, unless an equal one exists."""

    name: str
    uid: str
    action: Literal["TerminateJob"]
    message: str

    def __str__(self) -> str:
        return f"{self.action} {self.name}: {self.message}"


FlowEffect = UpdateStatus | CreateJob | DeleteJob | CommandJob | RecordEvent


@dataclass(frozen=True)
class FlowPlan(Plan[FlowEffect]):
    """A plan with the probes of pods to run."""

    pod_probes: tuple[PodProbe, ...] = ()

    def __str__(self) -> str:
        probes = (f"probe {pod_probe.pod}: {pod_probe}" for pod_probe in self.pod_probes)
        return "\n".join([*map(str, self.effects), *probes])


_LABEL_LIMIT = 63
_BEYOND = {"Running": ("Running", "Succeeded")}


def job_name(flow: JobFlow, step: FlowJob) -> str:
    """``<flow>-<job of the flow>``."""
    return f"{flow.metadata.name}-{step.name}"


def attempt_of(job: BatchJob) -> int:
    """Which attempt of its flow a job is."""
    given = (job.metadata.annotations or {}).get(names.FLOW_ATTEMPT, "0")
    return int(given) if given.isdecimal() else 0


def manifest(flow: JobFlow, step: FlowJob, template: JobTemplate, attempt: int) -> Json:
    """The job of a step, made from its template. Raises InvalidObjectError when the patched spec is no job's."""
    spec = job_spec(step, template)
    if step.patch is not None:
        BatchJobSpec.read(spec, unknown="forbid")
    made_by = {
        names.CREATED_BY_FLOW: f"{flow.metadata.namespace}.{flow.metadata.name}",
        names.CREATED_BY_TEMPLATE: f"{flow.metadata.namespace}.{template.metadata.name}",
    }
    annotations = inherited_annotations(template.metadata) | made_by | _author(template)
    if attempt:
        annotations[names.FLOW_ATTEMPT] = str(attempt)
    labels = {key: value for key, value in made_by.items() if len(value) <= _LABEL_LIMIT}
    return job_manifest(flow, job_name(flow, step), (template.metadata.labels or {}) | labels, annotations, spec)


def _author(template: JobTemplate) -> dict[str, str]:
    """The submitter of the template, who must be permitted to submit to the queue of the job as well."""
    recorded = template.metadata.annotations or {}
    keys = {names.TEMPLATE_SUBMITTED_BY: names.SUBMITTED_BY, names.TEMPLATE_SUBMITTER_GROUPS: names.SUBMITTER_GROUPS}
    return {key: recorded[source] for key, source in keys.items() if source in recorded}


class Waiting:
    """Unmet dependencies of a job of a flow: messages, and the probes to run."""

    def __init__(self, flow: JobFlow, step: FlowJob, entries: Mapping[str, FlowJobStatus], seen: FlowObserved) -> None:
        self.pod_probes: list[PodProbe] = []
        self.reasons: list[str] = []
        probe = step.depends_on.probe if step.depends_on else None
        probe = None if probe is None or probe.empty else probe
        task_names = set()
        for target in step.targets:
            entry = entries.get(target)
            job = seen.jobs.get(f"{flow.metadata.name}-{target}")
            if entry is not None and entry.state == "Completed":
                task_names |= _asked_tasks(probe)
                continue
            tasks = {task.name: task for task in job.spec.tasks} if job is not None else {}
            if probe is None or (tasks and not _asked_tasks(probe) & set(tasks)):
                state = f" ({entry.state})" if entry and entry.state else ""
                self.reasons.append(f'waiting for job "{target}" to complete{state}')
            elif job is None:
                task_names |= _asked_tasks(probe)
                self.reasons.append(f'waiting for job "{target}" to be created')
            else:
                task_names |= set(tasks)
                self._probe(target, job, tasks, probe, seen)
        if missing := sorted(_asked_tasks(probe) - task_names):
            self.reasons.insert(0, f"probe task not found in any target: {', '.join(missing)}: correct the flow")

    def _probe(
        self, target: str, job: BatchJob, tasks: Mapping[str, TaskSpec], probe: Probe, seen: FlowObserved
    ) -> None:
        for required in probe.task_status_list:
            if (task := tasks.get(required.task_name)) is None:
                continue
            phases = job.status.task_status_count.get(task.name)
            reached = _BEYOND.get(required.phase, (required.phase,))
            number = sum(phases.phase.get(phase, 0) for phase in reached) if phases else 0
            if number < max(task.needed, 1):
                pods_of_task = f'{number}/{max(task.needed, 1)} pods of task "{task.name}"'
                self.reasons.append(f'waiting for job "{target}": {pods_of_task} {required.phase}')
        pods = seen.pods.get(job.metadata.name, ())
        for task_name, pod_probes in _pod_probes(probe, pods):
            if (task := tasks.get(task_name)) is None:
                continue
            unanswered = [pod_probe for pod_probe in pod_probes if not seen.answers.get(pod_probe, False)]
            answered, needed = len(pod_probes) - len(unanswered), max(task.needed, 1)
            if answered < needed:
                self.pod_probes += unanswered
                what = next(map(str, pod_probes), "no address")
                self.reasons.append(
                    f'waiting for job "{target}": {answered}/{needed} pods of task "{task_name}" ready ({what})'
                )


def _asked_tasks(probe: Probe | None) -> set[str]:
    if probe is None:
        return set()
    return {
        *(entry.task_name for entry in probe.http_get_list),
        *(entry.task_name for entry in probe.tcp_socket_list),
        *(entry.task_name for entry in probe.task_status_list),
    }


def _pod_probes(probe: Probe, pods: Iterable[Pod]) -> Iterator[tuple[str, list[PodProbe]]]:
    """For each HTTP or TCP entry of a probe its task, and the question to each of the task's pods that has an address."""
    there = [
        (pod.metadata.labels.get(names.TASK_SPEC, ""), pod.metadata.name, pod.status.pod_ip)
        for pod in sorted(pods, key=lambda pod: pod.metadata.name)
        if pod.status.pod_ip and not pod.metadata.deletion_timestamp and pod.status.phase == "Running"
    ]
    for get in probe.http_get_list:
        header = (get.http_header.name, get.http_header.value) if get.http_header else ("", "")
        path = get.path if get.path.startswith("/") else f"/{get.path}"
        pods_of_task = [(name, ip) for task, name, ip in there if task == get.task_name]
        yield get.task_name, [PodProbe(name, ip, get.port, path, header) for name, ip in pods_of_task]
    for tcp in probe.tcp_socket_list:
        pods_of_task = [(name, ip) for task, name, ip in there if task == tcp.task_name]
        yield tcp.task_name, [PodProbe(name, ip, tcp.port) for name, ip in pods_of_task]


def made_of(
    flow: JobFlow, step: FlowJob, templates: Mapping[str, JobTemplate], attempt: int
) -> tuple[Json | None, str]:
    """The manifest of a step's job, or why it cannot be made."""
    template = templates.get(step.template_name)
    if template is None:
        return None, f'JobTemplate "{step.template_name}" not found in namespace "{flow.metadata.namespace}": create it'
    try:
        return manifest(flow, step, template, attempt), ""
    except InvalidObjectError as error:
        return None, f'invalid patch of JobTemplate "{step.template_name}": {error}'
