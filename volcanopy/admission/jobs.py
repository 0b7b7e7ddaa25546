"""Validation of a BatchJob beyond its schema, warnings about it, and the defaults that its schema cannot express."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from volcanopy.admission.access import acceptance_problems, queue_of
from volcanopy.admission.alternatives import alternative_problems
from volcanopy.admission.children import children_problems
from volcanopy.admission.context import Context, PluginCheck
from volcanopy.admission.feasibility import extreme_job_problems
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.request import Request, at, is_of_other_api, list_at
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec, TaskSpec
from volcanopy.api.graphs import dependency_cycle
from volcanopy.api.model import (
    NAME_PATTERN,
    PATH_PATTERN,
    InvalidObjectError,
    Json,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_found,
    quoted,
    too_long,
)
from volcanopy.api.quantity import amount
from volcanopy.api.queue_gate import with_queue_gate

_MAX_POD_NAME = 63
_BUDGET_KEYS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
BOUND = "pods are bound by the scheduler: use nodeSelector or nodeAffinity"


def with_task_names(manifest: Json) -> Json:
    """Return the job with a name for each task that has none; an object that is not valid is returned unchanged.

    No other default is written into a job: a minimum that was filled in would be wrong when the replicas are changed, and a
    changed list makes every ``kubectl apply`` of the same file report "configured".
    """
    return _with_tasks(manifest, _named)


def with_queue_gates(manifest: Json, gate: str) -> Json:
    """Return a job whose templates have this scheduling gate of queues where their annotations request it."""

    def gated(task: Json, _: int) -> Json:
        template = task.get("template")
        return {**task, "template": with_queue_gate(template, gate)} if isinstance(template, dict) else task

    return _with_tasks(manifest, gated)


def _with_tasks(manifest: Json, change: Callable[[Json, int], Json]) -> Json:
    """Return the job with each task changed, given with its number; an object that is not valid is returned unchanged."""
    spec, tasks = at(manifest, "spec"), at(manifest, "spec", "tasks")
    if not isinstance(tasks, list):
        return manifest
    new_tasks = [change(task, number) if isinstance(task, dict) else task for number, task in enumerate(tasks)]
    return manifest | {"spec": spec | {"tasks": new_tasks}}


_IMPLIED = {"svc": {"tensorflow", "mpi", "pytorch", "ray"}, "ssh": {"mpi"}}
"""Job plugins that others need."""


def with_defaults(manifest: Json) -> Json:
    """Return a job with the defaults that Volcano's clients read in it: minima, restarts, and plugins that others need."""
    manifest = _with_tasks(manifest, _with_minimum)
    spec, tasks = at(manifest, "spec"), at(manifest, "spec", "tasks")
    if not isinstance(tasks, list):
        return manifest
    defaults: Json = {"queue": spec.get("queue") or names.DEFAULT_QUEUE}
    minima = [task.get("minAvailable") for task in tasks if isinstance(task, dict)]
    if not spec.get("minAvailable") and all(isinstance(minimum, int) for minimum in minima):
        defaults["minAvailable"] = sum(minima)
    if not spec.get("maxRetry"):
        defaults["maxRetry"] = _MAX_RETRY
    plugins = spec.get("plugins")
    if isinstance(plugins, dict):
        implied: Json = {name: [] for name, plugin_names in _IMPLIED.items() if plugin_names & plugins.keys()}
        defaults["plugins"] = {**implied, **plugins}
    return manifest | {"spec": spec | defaults}


_MAX_RETRY = 3


def _with_minimum(task: Json, _: int) -> Json:
    """Return a task with the number of pods that it needs, and the number of its restarts."""
    new_task = {**task, "maxRetry": task.get("maxRetry") or _MAX_RETRY}
    if task.get("minAvailable") is None:
        replicas = task.get("replicas", 0)
        partitions, size = at(task, "partitionPolicy", "minPartitions"), at(task, "partitionPolicy", "partitionSize")
        whole = isinstance(partitions, int) and isinstance(size, int) and partitions > 0
        new_task["minAvailable"] = partitions * size if whole else replicas
    return new_task


def _named(task: Json, number: int) -> Json:
    if task.get("name"):
        return task
    return {"name": f"default{number}", **{key: value for key, value in task.items() if key != "name"}}


def job_problems(manifest: Json, plugins: PluginCheck) -> Iterator[Problem]:
    """Yield every problem of a job that does not depend on the cluster."""
    try:
        job = BatchJob.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from parsed_job_problems(job, plugins)


def parsed_job_problems(job: BatchJob, plugins: PluginCheck) -> Iterator[Problem]:
    """Yield every problem of a job that matches its schema and does not depend on the cluster."""
    yield from _problems(job, plugins)
    yield from alternative_problems(job, lambda result: _problems(result, plugins))


def _problems(job: BatchJob, plugins: PluginCheck) -> Iterator[Problem]:
    yield from _amounts(job.spec)
    yield from _dependencies(job.spec)
    yield from _names(job)
    yield from _whole_cpus(job.spec)
    yield from _bound_pods(job.spec)
    yield from children_problems(job)
    yield from extreme_job_problems(job.spec)
    yield from plugins(job)


_IMMUTABLE = (
    *("queue", "schedulerName", "minSuccess", "policies", "plugins", "maxRetry", "ttlSecondsAfterFinished"),
    *("volumes", "networkTopology", "runningEstimate", "alternatives"),
)
_IMMUTABLE_IN_TASK = ("template", "policies", "topologyPolicy", "maxRetry", "dependsOn", "partitionPolicy")


def immutability_problems(manifest: Json, old: Json) -> Iterator[Problem]:
    """Yield a problem for each immutable field of a job that an update changes.

    As in Volcano, the webhook enforces this: transition rules in the schema would be evaluated for each status as well.
    """
    spec, before = at(manifest, "spec") or {}, at(old, "spec") or {}
    yield from _changes(spec, before, _IMMUTABLE, "spec")
    tasks, tasks_before = ({task["name"]: task for task in version.get("tasks", ())} for version in (spec, before))
    if tasks.keys() != tasks_before.keys():
        yield forbidden("spec.tasks", "tasks cannot be added, removed or renamed: create a new job")
    for number, (name, task) in enumerate(tasks.items()):
        if name in tasks_before:
            yield from _changes(task, tasks_before[name], _IMMUTABLE_IN_TASK, f"spec.tasks[{number}]")


def _changes(after: Json, before: Json, fields: tuple[str, ...], path: str) -> Iterator[Problem]:
    for name in fields:
        if (name in after) != (name in before) or after.get(name) != before.get(name):
            yield forbidden(f"{path}.{name}", "field is immutable: create a new job")


def budget_problems(annotations: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem if the annotations of a job or pod have two disruption budgets."""
    keys = [key for key in _BUDGET_KEYS if key in annotations]
    if len(keys) > 1:
        yield forbidden(f"metadata.annotations[{keys[1]}]", f"mutually exclusive with {keys[0]}")


def _amounts(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield the numbers of pods that contradict each other.

    Rules of the schema would be evaluated for each status as well, and every field that a rule reads costs the API server a copy
    of the schemas of all fields beside it.
    """
    for name, number in (("minAvailable", spec.min_available), ("minSuccess", spec.min_success or 0)):
        if number > spec.replicas:
            detail = f"must not be greater than the sum of task replicas ({spec.replicas}): lower it or raise replicas"
            yield invalid(f"spec.{name}", number, detail)
    for position, task in enumerate(spec.tasks):
        path = f"spec.tasks[{position}]"
        if task.needed > task.replicas:
            detail = f"must not be greater than replicas ({task.replicas}): lower it or raise replicas"
            yield invalid(f"{path}.minAvailable", task.needed, detail)
        minimum = task.replicas if task.min_available is None else task.min_available
        if task.parallelism is not None and minimum > task.parallelism:
            detail = (
                f"must be at least minAvailable ({minimum}), which defaults to replicas: raise it, or set minAvailable"
            )
            yield invalid(f"{path}.parallelism", task.parallelism, detail)
        yield from _partitions(task, path)


def _partitions(task: TaskSpec, path: str) -> Iterator[Problem]:
    policy = task.partition_policy
    if policy is None:
        return
    if task.replicas != (pods := policy.total_partitions * policy.partition_size):
        yield invalid(f"{path}.replicas", task.replicas, f"must be totalPartitions * partitionSize ({pods})")
    minimum = policy.min_partitions * policy.partition_size
    if minimum and task.min_available not in (None, minimum):
        detail = f"must be minPartitions * partitionSize ({minimum}), or not set"
        yield invalid(f"{path}.minAvailable", task.min_available, detail)


def _dependencies(spec: BatchJobSpec) -> Iterator[Problem]:
    task_names = {task.name for task in spec.tasks}
    dependencies: list[tuple[str, str]] = []
    for number, task in enumerate(spec.tasks):
        for position, name in enumerate(task.depends_on.name if task.depends_on else ()):
            if name in task_names:
                dependencies.append((task.name, name))
            else:
                path = f"spec.tasks[{number}].dependsOn.name[{position}]"
                yield not_found(path, "task", name, f"tasks of the job are {quoted(sorted(task_names))}")
    if path := dependency_cycle(dependencies):
        yield Problem("spec.tasks", f"Invalid value: dependsOn has a cycle: {path}")


def reference_problems(path: str, name: str) -> Iterator[Problem]:
    """Yield a problem if no object can have the name that a field refers to, so that pods would wait for it for ever."""
    if name and re.fullmatch(PATH_PATTERN, name) is None:
        yield invalid(path, name, "names of objects consist of lower case letters, digits, '-' and '.'")


def job_name_problems(name: str, *, dotted: bool) -> Iterator[Problem]:
    """Yield a problem if a job of this API may not have the name; one without a name gets a valid one."""
    pattern = PATH_PATTERN if dotted else NAME_PATTERN
    if name and re.fullmatch(pattern, name) is None:
        detail = "names of jobs consist of lower case letters, digits and '-', and begin and end with a letter or digit"
        yield invalid("metadata.name", name, detail)


def _names(job: BatchJob) -> Iterator[Problem]:
    yield from job_name_problems(job.metadata.name, dotted=job.binding.dotted_job_names)
    yield from reference_problems("spec.priorityClassName", job.spec.priority_class_name)
    for number, volume in enumerate(job.spec.volumes):
        yield from reference_problems(f"spec.volumes[{number}].volumeClaimName", volume.volume_claim_name)
    seen_names: set[str] = set()
    for number, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{number}].name"
        if task.name in seen_names:
            yield duplicate(path, task.name)
        seen_names.add(task.name)
        longest = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(longest) > _MAX_POD_NAME:
            yield too_long(path, longest, _MAX_POD_NAME, "shorten the name of the job or task")


def _whole_cpus(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield containers of tasks with a topology policy without whole CPUs: a node pins no others."""
    for number, task in enumerate(spec.tasks):
        if task.topology_policy in {"", "none"}:
            continue
        for kind in ("initContainers", "containers"):
            for position, container in enumerate(list_at(task.template, "spec", kind)):
                cpu = at(container, "resources", "requests", "cpu") or at(container, "resources", "limits", "cpu")
                if not (milli := _milli(cpu)) or milli % 1000:
                    path = f"spec.tasks[{number}].template.spec.{kind}[{position}].resources.requests[cpu]"
                    detail = f'topologyPolicy "{task.topology_policy}" requires a whole number of CPUs'
                    yield invalid(path, cpu or 0, detail)


def _bound_pods(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield the tasks whose pods would bypass the scheduler, and with it the gang and the limits of the queue."""
    for number, task in enumerate(spec.tasks):
        if at(task.template, "spec", "nodeName"):
            yield forbidden(f"spec.tasks[{number}].template.spec.nodeName", BOUND)


def _milli(cpu: object) -> int:
    """Return a CPU quantity in milli-CPUs; 0 for what is not a quantity, which is reported with the other amounts."""
    try:
        return amount("cpu", cpu) if isinstance(cpu, (str, int, float)) else 0
    except ValueError:
        return 0


_MAX_CONTAINERS = 64


def job_warnings(spec: BatchJobSpec, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a job."""
    if spec.min_available == 0 and "min_available" in spec.model_fields_set:
        detail = f"the same as no value: the minimum is {spec.needed} pods, the sum of the tasks' minAvailable"
        yield invalid("spec.minAvailable", 0, detail)
    for number, task in enumerate(spec.tasks):
        path = f"spec.tasks[{number}]"
        if task.min_available == 0 and task.replicas:
            yield invalid(f"{path}.minAvailable", 0, f'the job can run without any pod of task "{task.name}"')
        if not task.replicas:
            yield invalid(f"{path}.replicas", 0, f'task "{task.name}" has no pods')
        yield from pod_warnings(at(task.template, "spec"), f"{path}.template.spec", context)
        yield from _scheduler(
            at(task.template, "spec", "schedulerName"), f"{path}.template.spec.schedulerName", context
        )
        codes = [policy.exit_code for policy in [*task.policies, *spec.policies] if policy.exit_code]
        restarts = at(task.template, "spec", "restartPolicy")
        if codes and restarts in ("OnFailure", "Always"):
            detail = f"policies for exitCode {codes[0]} have no effect: containers restart, and the pod does not fail"
            yield invalid(f"{path}.template.spec.restartPolicy", restarts, detail)
    if all(at(task.template, "spec", "restartPolicy") == "Always" for task in spec.tasks):
        detail = "containers restart after a success, too, and the job does not end by itself: use Never or OnFailure"
        yield invalid("spec.tasks[0].template.spec.restartPolicy", "Always", detail)
    yield from _priority(spec.priority_class_name, "spec.priorityClassName", context)
    yield from _scheduler(spec.scheduler_name, "spec.schedulerName", context)


def _scheduler(name: Any, path: str, context: Context) -> Iterator[Problem]:
    if isinstance(name, str) and name and name not in context.policy.scheduler_names:
        detail = "pods of another scheduler are neither scheduled as a gang nor counted in the queue"
        yield invalid(path, name, detail)


def scheduler_problems(spec: BatchJobSpec, request: Request, context: Context) -> Iterator[Problem]:
    """Yield the schedulers that would read the pods with the names of another API, and so never find those of a task."""
    names_by_path = {"spec.schedulerName": spec.scheduler_name} | {
        f"spec.tasks[{number}].template.spec.schedulerName": at(task.template, "spec", "schedulerName")
        for number, task in enumerate(spec.tasks)
    }
    for path, name in names_by_path.items():
        if name in context.policy.scheduler_names and is_of_other_api(str(name), request.binding):
            detail = f'schedules the pods of another API: use "{request.binding.scheduler_name}" or leave it out'
            yield invalid(path, name, detail)


def queue_warnings(path: str, name: str, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a queue that jobs are submitted to later."""
    if context.queues is None:
        return
    queue = queue_of(name, context.queues)
    if queue is None:
        yield not_found(path, "queue", name, "jobs are rejected until it exists")
    elif queue.status.state not in {"", "Open"}:
        yield invalid(path, name, f"queue is {queue.status.state}: jobs are rejected until it is open")
    else:
        yield from acceptance_problems(path, name, context)


def pod_warnings(spec: Any, path: str, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a pod's spec, given as JSON."""
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(list_at(spec, kind)[:_MAX_CONTAINERS]):
            yield from _container(container, f"{path}.{kind}[{number}].resources")
    name = at(spec, "priorityClassName")
    yield from _priority(name if isinstance(name, str) else "", f"{path}.priorityClassName", context)


def _container(container: Any, path: str) -> Iterator[Problem]:
    requests, limits = (_quantities(at(container, "resources", kind)) for kind in ("requests", "limits"))
    maximum = amounts_of(limits)
    for name, units in amounts_of(requests).items():
        if name in maximum and units > maximum[name]:
            detail = f"must be less than or equal to the limit ({limits[name]}): pods will be rejected"
            yield invalid(f"{path}.requests[{name}]", requests[name], detail)
        elif units == 0:
            yield invalid(f"{path}.requests[{name}]", requests[name], "nothing is reserved for the container")


def _quantities(resources: Any) -> dict[str, str | int | float]:
    if not isinstance(resources, dict) or len(resources) > 64:
        return {}
    return {key: value for key, value in resources.items() if isinstance(value, (str, int, float))}


def _priority(name: str, path: str, context: Context) -> Iterator[Problem]:
    if name and context.priority_classes is not None and name not in context.priority_classes:
        yield not_found(path, "PriorityClass", name, "pods are rejected until it exists")
