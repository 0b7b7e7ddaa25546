"""The BatchJob of equal pods that ``job run`` and the class ``Job`` submit."""

import json
import re
from collections.abc import Sequence
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.quantity import QuantityError, parse
from volcanopy.client.durations import whole_seconds
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of
from volcanopy.client.jobs import program
from volcanopy.client.jobs.options import JobOptions, RestartOption
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS

_EXAMPLES = {"cpu": "500m or 2", "memory": "4Gi", "cpu-limit": "500m or 2", "memory-limit": "4Gi"}
_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OPTIONS = {
    "metadata.name": "--name",
    "spec.minAvailable": "--min",
    "spec.queue": "--queue",
    "spec.tasks[0].name": "--task",
    "spec.tasks[0].replicas": "--replicas",
    "spec.tasks[0].minAvailable": "--min",
    "spec.priorityClassName": "--priority-class",
    "spec.ttlSecondsAfterFinished": "--ttl",
    "spec.activeDeadlineSeconds": "--deadline",
    "spec.runningEstimate": "--estimate",
    "spec.maxRetry": "--max-retry",
}
"""Options of fields, for messages."""


def manifest(options: JobOptions) -> Json:
    """Return the BatchJob; raises CommandError with the option that is invalid."""
    _check_combination(options)
    array = program.array(options.array) if options.array else None
    container: Json = {"name": options.task, "image": options.image or "none"}
    if command := _command(options):
        container["command"] = command
    if options.interactive:
        container |= {"stdin": True, "stdinOnce": True, "tty": True}
    if variables := pairs("--env", options.env):
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    if resources := _resources(options):
        container["resources"] = resources
    restart = options.restart or (RestartOption.OnFailure if array else RestartOption.Never)
    pod: Json = {"restartPolicy": restart.value, "containers": [container]}
    if options.grace_period is not None:
        pod["terminationGracePeriodSeconds"] = _whole_seconds("--grace-period", options.grace_period, 0)
    if options.here:
        program.run_here(container, pod, options.directory)
    elif options.directory:
        container["workingDir"] = options.directory
    template: Json = {"spec": pod}
    marks = {"labels": pairs("--label", options.label), "annotations": pairs("--annotation", options.annotation)}
    marks = {key: values for key, values in marks.items() if values}
    if marks:
        template = {"metadata": marks, **template}
    task: Json = {"name": options.task, "replicas": options.replicas, "template": template}
    if options.minimum is not None:
        task["minAvailable"] = options.minimum
    plugins = {name: arguments.split() for name, _, arguments in (text.partition("=") for text in options.plugin or ())}
    if array is not None:
        task |= {"replicas": array.count, "minAvailable": 1, "maxRetry": 3 * array.count}
        task |= {"parallelism": array.parallelism} if array.parallelism else {}
        plugins.setdefault("env", []).append(f"--first-index={array.first}")
    spec: Json = {
        "queue": options.queue,
        "minAvailable": options.minimum,
        "priorityClassName": options.priority_class,
        "maxRetry": options.max_retry,
        "ttlSecondsAfterFinished": _whole_seconds("--ttl", options.ttl, 0),
        "activeDeadlineSeconds": _whole_seconds("--deadline", options.deadline, 1),
        "runningEstimate": _estimate(options.estimate),
        "plugins": plugins,
    }
    if array is not None:
        spec |= {"minAvailable": 1, "minSuccess": array.count}
    spec = {key: value for key, value in spec.items() if value not in (None, "", {})} | {"tasks": [task]}
    metadata: Json = {"name": options.name} if options.name else {"generateName": "job-"}
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata | {key: dict(values) for key, values in marks.items()},
        "spec": spec,
    }
    check_manifest(body)
    copy: Json = json.loads(json.dumps(body))
    return copy


def _whole_seconds(option: str, text: str | None, minimum: int) -> int | None:
    return None if text is None else whole_seconds(option, text, minimum=minimum)


def _estimate(text: str) -> str:
    """Return the duration of ``--estimate`` as the API has it: without days, and with a unit."""
    if not text:
        return ""
    length = whole_seconds("--estimate", text, minimum=1)
    return f"{length}s" if text.isdecimal() or "d" in text else text


def _check_combination(options: JobOptions) -> None:
    """Raise CommandError for options that exclude each other."""
    if not (options.image or options.script or options.arguments or options.interactive):
        raise CommandError("specify --image, or a command to run on a process node", 2)
    if options.name and not _NAME.fullmatch(options.name):
        raise CommandError(
            f"--name: {options.name!r} is invalid: use lower case letters, digits and '-', at most 63", 2
        )
    if options.array and (options.replicas != 1 or options.minimum is not None):
        raise CommandError("--array: sets the number of pods: leave out --replicas and --min", 2)
    if options.directory and not options.here and not options.directory.startswith("/"):
        raise CommandError(f"--directory: {options.directory!r} is relative: use an absolute path of the image", 2)
    if options.interactive and (options.array or options.replicas != 1 or options.follow):
        raise CommandError("--interactive: runs one pod: leave out --replicas, --array and --follow", 2)


def _command(options: JobOptions) -> list[str]:
    """Return the command of the container; empty for that of the image."""
    arguments = list(options.arguments or ())
    if options.script is not None:
        return program.script(text_of(options.script, "--script"), arguments)
    return arguments or (["sh"] if options.interactive else [])


def _resources(options: JobOptions) -> Json:
    """Return requests and limits of the container; a limit is the request unless an option sets it."""
    requests = {"cpu": options.cpu, "memory": options.memory, **pairs("--resource", options.resource)}
    if options.gpus:
        requests["nvidia.com/gpu"] = str(options.gpus)
    options_of_limits = {"cpu": options.cpu_limit, "memory": options.memory_limit}
    given_limits = {name: amount for name, amount in options_of_limits.items() if amount is not None}
    limits = requests | given_limits
    for name, amount in (*requests.items(), *((f"{name}-limit", amount) for name, amount in given_limits.items())):
        _check_amount(name, amount)
    resources = {
        section: {name: amount for name, amount in amounts.items() if amount not in {"", "0"}}
        for section, amounts in (("requests", requests), ("limits", limits))
    }
    for name in ("cpu", "memory"):
        request, limit = resources["requests"].get(name, "0"), resources["limits"].get(name)
        if limit is not None and parse(limit) < parse(request):
            raise CommandError(f"--{name}-limit: {limit} is less than the request {request}", 2)
    return {section: amounts for section, amounts in resources.items() if amounts}


def pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return ``name=value`` texts as a mapping; raises CommandError for other texts."""
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"{option}: {text!r} is invalid: use name=value", 2)
        values[name] = value
    return values


def _check_amount(name: str, amount: str) -> None:
    option = f"--{name}" if name.removesuffix("-limit") in {"cpu", "memory"} else f"--resource {name}"
    if not amount.strip():
        raise CommandError(f"{option}: '' is invalid: use a quantity such as {_EXAMPLES.get(name, '1')}; 0: none", 2)
    try:
        quantity = parse(amount)
    except QuantityError as fault:
        raise CommandError(f"{option}: {fault}", 2) from None
    if quantity < 0:
        raise CommandError(f"{option}: {amount!r} is negative: use 0 or more", 2)
    if "/" in name and quantity % 1:
        raise CommandError(
            f"{option}: {amount!r} is not an integer, as devices are counted: use {-(-quantity // 1)}", 2
        )


def check_manifest(body: Json) -> None:
    """Raise CommandError, by the options' names, for what every server would reject."""
    checked: dict[str, Any] = {**body, "metadata": {"name": "job-00000", **body["metadata"]}}
    try:
        job = BatchJob.read(checked, unknown="forbid")
    except InvalidObjectError as fault:
        message = "; ".join(
            f"{_OPTIONS.get(problem.path, problem.path)}: {problem.message}" for problem in fault.problems
        )
        raise CommandError(message, 2) from None
    if job.spec.min_available > job.spec.replicas:
        raise CommandError(f"--min: {job.spec.min_available} exceeds --replicas {job.spec.replicas}", 2)
