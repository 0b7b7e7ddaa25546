"""What is wrong with a BatchJob that its schema cannot say: its plugins, circles among its tasks."""

from collections.abc import Iterator

from volcanopy.admission.plugins import PluginCheck
from volcanopy.admission.request import at
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.dependencies import cycle
from volcanopy.api.model import InvalidObjectError, Json, Problem
from volcanopy.api.quantity import amount


def job_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Everything that is wrong with a job by itself; its queue is judged by whoever knows the queues."""
    try:
        job = BatchJob.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from _amounts(job.spec)
    yield from _dependencies(job.spec)
    yield from _names(job)
    yield from _whole_cpus(job.spec)
    yield from plugins(job)


def _amounts(spec: BatchJobSpec) -> Iterator[Problem]:
    if spec.min_available > spec.replicas:
        told = f"{spec.min_available} is more than the {spec.replicas} replicas of all tasks together"
        yield Problem("spec.minAvailable", told)
    for number, task in enumerate(spec.tasks):
        if task.needed > task.replicas:
            path = f"spec.tasks[{number}].minAvailable"
            yield Problem(path, f"{task.needed} is more than the {task.replicas} replicas of task {task.name}")


def _dependencies(spec: BatchJobSpec) -> Iterator[Problem]:
    known = {task.name for task in spec.tasks}
    waits: list[tuple[str, str]] = []
    for number, task in enumerate(spec.tasks):
        for position, name in enumerate(task.depends_on.name if task.depends_on else ()):
            if name in known:
                waits.append((task.name, name))
            else:
                path = f"spec.tasks[{number}].dependsOn.name[{position}]"
                yield Problem(path, f"the job has no task {name!r}: choose from {', '.join(sorted(known))}")
    if way := cycle(waits):
        yield Problem("spec.tasks", f"tasks wait for each other in a circle: {way}")


def _names(job: BatchJob) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, task in enumerate(job.spec.tasks):
        if task.name in seen:
            yield Problem(f"spec.tasks[{number}].name", f"there is more than one task {task.name!r}")
        seen.add(task.name)
        longest = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(longest) > 63:
            told = f"its pods would be called {longest}, which has {len(longest)} characters: 63 are allowed"
            yield Problem(f"spec.tasks[{number}].name", told)


def _whole_cpus(spec: BatchJobSpec) -> Iterator[Problem]:
    """A node sets cpus apart only for a container that asks for whole ones: how others lie cannot be promised."""
    for number, task in enumerate(spec.tasks):
        if task.topology_policy in {"", "none"}:
            continue
        for kind in ("initContainers", "containers"):
            containers = at(task.template, "spec", kind)
            for position, container in enumerate(containers if isinstance(containers, list) else ()):
                asked = at(container, "resources", "requests", "cpu") or at(container, "resources", "limits", "cpu")
                if not (milli := _milli(asked)) or milli % 1000:
                    path = f"spec.tasks[{number}].template.spec.{kind}[{position}].resources"
                    told = f"topologyPolicy {task.topology_policy} needs whole cpus: {asked or 'no'} cpu is requested"
                    yield Problem(path, told)


def _milli(asked: object) -> int:
    """Thousandths of a cpu; 0 for what is no quantity, which the schema refuses as such."""
    try:
        return amount("cpu", asked) if isinstance(asked, (str, int, float)) else 0
    except ValueError:
        return 0
