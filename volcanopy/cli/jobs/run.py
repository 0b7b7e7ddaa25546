"""``volcanopy job run``: a job of equal pods from options; and ``submit``: jobs from files."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.api.quantity import QuantityError, parse
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import JOBS, key_of
from volcanopy.cli.framework.options import Cluster, Place, Written
from volcanopy.kube.client.kinds import Json

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
    "spec.maxRetry": "--max-retry",
}
"""Which option a field comes from."""


@dataclass(frozen=True)
class Asked:
    """What a person asks of a new job; quantities, variables and labels are ``name=value`` texts."""

    name: str
    image: str
    task: str
    replicas: int
    least: int | None
    cpu: str
    memory: str
    resources: Sequence[str]
    queue: str
    priority_class: str
    environment: Sequence[str]
    labels: Sequence[str]
    annotations: Sequence[str]
    plugins: Sequence[str]
    restart: str
    max_retry: int | None
    ttl: int | None
    command: Sequence[str]


async def run(cluster: Cluster, place: Place, written: Written, asked: Asked) -> tuple[str, str] | None:
    """Make the job; gives its namespace and name, or None when it was only tried."""
    if asked.name and not _NAME.fullmatch(asked.name):
        raise CommandError(f"--name: {asked.name!r} must be of lower case letters, digits and '-', 63 at most", 2)
    body, changes = manifest(asked), Changes(written)
    if changes.pretended:
        if place.namespace:
            body["metadata"]["namespace"] = place.namespace
        changes.tell(JOBS, body, "created")
        return None
    async with cluster.client() as client:
        made = await changes.create(client, JOBS, place.of(client), body)
    where = key_of(made)
    return None if changes.options.get("dryRun") else (where.namespace, where.name)


def manifest(asked: Asked) -> Json:
    """The BatchJob; raises Stop with the option that is wrong."""
    amounts = {"cpu": asked.cpu, "memory": asked.memory, **pairs("--resource", asked.resources)}
    amounts = {key: amount for key, amount in amounts.items() if amount not in {"", "0"}}
    for key, amount in amounts.items():
        _check_amount(key, amount)
    container: Json = {"name": asked.task, "image": asked.image}
    if asked.command:
        container["command"] = list(asked.command)
    if asked.environment:
        variables = pairs("--env", asked.environment)
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    if amounts:
        container["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
    template: Json = {"spec": {"restartPolicy": asked.restart, "containers": [container]}}
    marks = {"labels": pairs("--label", asked.labels), "annotations": pairs("--annotation", asked.annotations)}
    marks = {key: given for key, given in marks.items() if given}
    if marks:
        template = {"metadata": marks, **template}
    task: Json = {"name": asked.task, "replicas": asked.replicas, "template": template}
    if asked.least is not None:
        task["minAvailable"] = asked.least
    spec: Json = {
        "queue": asked.queue,
        "minAvailable": asked.least,
        "priorityClassName": asked.priority_class,
        "maxRetry": asked.max_retry,
        "ttlSecondsAfterFinished": asked.ttl,
        "plugins": {name: [one for one in given.split(" ") if one] for name, given in _plugins(asked.plugins).items()},
    }
    spec = {key: given for key, given in spec.items() if given not in (None, "", {})} | {"tasks": [task]}
    metadata: Json = {"name": asked.name} if asked.name else {"generateName": "job-"}
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata | {key: dict(given) for key, given in marks.items()},
        "spec": spec,
    }
    _check(body)
    copy: Json = json.loads(json.dumps(body))
    return copy


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """``name=value`` texts as a mapping; several may stand in one text, with commas, where values have none."""
    found_pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"{option}: {text!r} must be name=value", 2)
        found_pairs[name] = value
    return found_pairs


def _plugins(given: Sequence[str]) -> Mapping[str, str]:
    return {name: arguments for name, _, arguments in (one.partition("=") for one in given)}


def _check_amount(name: str, amount: str) -> None:
    option = f"--{name}" if name in {"cpu", "memory"} else f"--resource {name}"
    try:
        negative = parse(amount) < 0
    except QuantityError as fault:
        raise CommandError(f"{option}: {fault}", 2) from None
    if negative:
        raise CommandError(f"{option}: {amount!r} must not be negative", 2)


def _check(body: Json) -> None:
    """Refuse what no server would take, by the options' names."""
    checked: dict[str, Any] = {**body, "metadata": {"name": "job-00000", **body["metadata"]}}
    try:
        job = BatchJob.read(checked, unknown="forbid")
    except InvalidObjectError as fault:
        said = "; ".join(f"{_OPTIONS.get(one.path, one.path)}: {one.message}" for one in fault.problems)
        raise CommandError(said, 2) from None
    if job.spec.min_available > job.spec.replicas:
        raise CommandError(f"--min: {job.spec.min_available} is more than the {job.spec.replicas} --replicas", 2)
