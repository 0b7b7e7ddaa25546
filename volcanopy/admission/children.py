"""Limits of what the controllers create from a job, checked on the job: amounts in pod templates, and sizes of annotations."""

from collections.abc import Iterator, Mapping
from typing import Any

from volcanopy.admission.request import at, list_at
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.model import Problem, invalid, shown, too_many
from volcanopy.api.quantity import QuantityError, amount

MAX_RESOURCES = 64
"""Maximum number of resources in a resource list."""
MAX_CONTAINERS = 1024
"""Maximum number of containers of a kind in a pod."""
MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object that the API server accepts."""
ADDED_ANNOTATIONS = 16 * 1024
"""Bytes that the controllers and the scheduler may add to the annotations of a pod or PodGroup."""
_KINDS = ("initContainers", "containers")


def children_problems(job: BatchJob) -> Iterator[Problem]:
    """Yield why the PodGroup or the pods of a job would be rejected, or could not be read, whatever the cluster."""
    job_annotations = job.metadata.annotations or {}
    if problem := _size_problem("metadata.annotations", job_annotations, {}):
        yield problem
        return
    for number, task in enumerate(job.spec.tasks):
        path, notes = f"spec.tasks[{number}].template", at(task.template, "metadata", "annotations")
        further = notes if isinstance(notes, dict) else {}
        if further and (problem := _size_problem(f"{path}.metadata.annotations", job_annotations, further)):
            yield problem
    yield from amount_problems(job.spec)


def _size_problem(path: str, job_annotations: Mapping[str, Any], further: Mapping[str, Any]) -> Problem | None:
    together = {key: value for key, value in {**job_annotations, **further}.items() if isinstance(value, str)}
    size, most = (
        sum(len(f"{key}{value}".encode("utf-8", "surrogatepass")) for key, value in together.items()),
        MAX_ANNOTATIONS - ADDED_ANNOTATIONS,
    )
    if size <= most:
        return None
    of = " with those of the job" if further else ""
    detail = "pods and PodGroups inherit them and get further ones: remove some"
    return Problem(path, f"Too long: {size} bytes{of}, must have at most {most}: {detail}")


def amount_problems(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield the amounts in pod templates that are not quantities, or negative: no reader could count them."""
    for number, task in enumerate(spec.tasks):
        path, pod = f"spec.tasks[{number}].template.spec", at(task.template, "spec")
        for kind in _KINDS:
            containers = list_at(pod, kind)
            if len(containers) > MAX_CONTAINERS:
                yield too_many(f"{path}.{kind}", len(containers), MAX_CONTAINERS)
                return
            for position, container in enumerate(containers):
                yield from _resources(at(container, "resources"), f"{path}.{kind}[{position}].resources")
        yield from _resources(at(pod, "resources"), f"{path}.resources")
        yield from _amounts(at(pod, "overhead"), f"{path}.overhead")


def _resources(resources: Any, path: str) -> Iterator[Problem]:
    for part in ("requests", "limits"):
        yield from _amounts(at(resources, part), f"{path}.{part}")


def _amounts(amounts: Any, path: str) -> Iterator[Problem]:
    if not isinstance(amounts, Mapping):
        return  # absent, or of a type that the schema rejects
    if len(amounts) > MAX_RESOURCES:
        yield too_many(path, len(amounts), MAX_RESOURCES)
        return
    for name, value in amounts.items():
        yield from quantity_problems(path, {name: value})


def quantity_problems(path: str, resources: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield quantities that are not valid or negative."""
    for name, value in resources.items():
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise QuantityError(
                    f"{shown(value)} is not a quantity: must be a number or text, such as 500m, 2 or 1.5Gi"
                )
            negative = amount(name, value) < 0
        except QuantityError as error:
            yield Problem(f"{path}[{name}]", f"Invalid value: {error}")
        else:
            if negative:
                yield invalid(f"{path}[{name}]", value, "must be greater than or equal to 0")
