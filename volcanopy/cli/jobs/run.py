"""``volcanopy job run``: a job of equal pods from options."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.quantity import QuantityError, parse
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import key_of
from volcanopy.cli.framework.options import Cluster, Place, WriteOptions
from volcanopy.cli.jobs.logs import follow_logs
from volcanopy.cli.jobs.options import JobOptions, LogOptions
from volcanopy.cli.jobs.status import FINISHED, phase, summary
from volcanopy.cli.jobs.wait import Goal, wait_until_job
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS

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


async def run(cluster: Cluster, place: Place, write: WriteOptions, options: JobOptions) -> None:
    """Create the job; with ``--follow``, print its logs until it has finished."""
    if options.name and not _NAME.fullmatch(options.name):
        raise CommandError(
            f"--name: {options.name!r} is invalid: use lower case letters, digits and '-', at most 63", 2
        )
    body, changes = manifest(options), Changes(write)
    if changes.client_only:
        if place.namespace:
            body["metadata"]["namespace"] = place.namespace
        changes.report(JOBS, body, "created")
        return
    async with cluster.client() as client:
        created = await changes.create(client, JOBS, place.of(client), body)
    if options.follow and not changes.dry_run:
        key = key_of(created)
        await _follow(cluster, key.namespace, key.name)


async def _follow(cluster: Cluster, namespace: str, name: str) -> None:
    """Print the job's logs until it has finished; raises CommandError unless it is Completed."""
    async with cluster.client() as client:
        body = await client.get(JOBS, namespace, name)
        finishing = asyncio.create_task(wait_until_job(client, body, Goal("finished", FINISHED)))
        try:
            await follow_logs(client, body, LogOptions(), required=False)
            job = await finishing
        finally:
            finishing.cancel()
    if phase(job) != "Completed":
        raise CommandError(f'job "{name}" is {summary(job)}')


def manifest(options: JobOptions) -> Json:
    """Return the BatchJob; raises CommandError with the option that is invalid."""
    amounts = {"cpu": options.cpu, "memory": options.memory, **pairs("--resource", options.resource)}
    amounts = {name: amount for name, amount in amounts.items() if amount not in {"", "0"}}
    for name, amount in amounts.items():
        _check_amount(name, amount)
    container: Json = {"name": options.task, "image": options.image}
    if options.arguments:
        container["command"] = list(options.arguments)
    if variables := pairs("--env", options.env):
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    if amounts:
        container["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
    template: Json = {"spec": {"restartPolicy": options.restart.value, "containers": [container]}}
    marks = {"labels": pairs("--label", options.label), "annotations": pairs("--annotation", options.annotation)}
    marks = {key: values for key, values in marks.items() if values}
    if marks:
        template = {"metadata": marks, **template}
    task: Json = {"name": options.task, "replicas": options.replicas, "template": template}
    if options.minimum is not None:
        task["minAvailable"] = options.minimum
    plugins = (plugin.partition("=") for plugin in options.plugin or ())
    spec: Json = {
        "queue": options.queue,
        "minAvailable": options.minimum,
        "priorityClassName": options.priority_class,
        "maxRetry": options.max_retry,
        "ttlSecondsAfterFinished": options.ttl,
        "activeDeadlineSeconds": options.deadline,
        "runningEstimate": options.estimate,
        "plugins": {name: arguments.split() for name, _, arguments in plugins},
    }
    spec = {key: value for key, value in spec.items() if value not in (None, "", {})} | {"tasks": [task]}
    metadata: Json = {"name": options.name} if options.name else {"generateName": "job-"}
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata | {key: dict(values) for key, values in marks.items()},
        "spec": spec,
    }
    _check(body)
    copy: Json = json.loads(json.dumps(body))
    return copy


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
    option = f"--{name}" if name in {"cpu", "memory"} else f"--resource {name}"
    try:
        negative = parse(amount) < 0
    except QuantityError as fault:
        raise CommandError(f"{option}: {fault}", 2) from None
    if negative:
        raise CommandError(f"{option}: {amount!r} is negative: use 0 or more", 2)


def _check(body: Json) -> None:
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
