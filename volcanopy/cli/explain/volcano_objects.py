"""Objects of Volcano's API as those of volcanopy, for what-if questions about a cluster that serves both."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding, is_job, with_own_keys
from volcanopy.api.model import Json

_KIND = "BatchJob"


def served(jobs: Iterable[Json], objects: Iterable[Any]) -> tuple[Binding, ...]:
    """Return the APIs whose jobs and pod groups volcanopy handles, as these show.

    Admission writes the submitter into jobs, and the scheduler its explanation into pod groups that wait. Volcano does
    neither, so the jobs of a Volcano beside volcanopy are not taken for its own.
    """
    handled = {str(job.get("apiVersion")) for job in jobs if names.SUBMITTED_BY in _annotations(job)}
    handled |= {
        group.api_version
        for group in objects
        if isinstance(group, core.PodGroup) and group.status.explanation is not None
    }
    groups = {version.partition("/")[0] for version in handled}
    return tuple(
        binding
        for binding in BINDINGS
        if binding is VOLCANOPY or not groups.isdisjoint(map(binding.group, (names.BATCH, names.SCHEDULING)))
    )


def _annotations(body: Json) -> Json:
    return body["metadata"].get("annotations") or {}


def own_job(body: Json, binding: Binding) -> Json:
    """Return a job of an API as a BatchJob; the labels and annotations of its pods have volcanopy's names as well."""
    if binding is VOLCANOPY:
        return {"apiVersion": names.BATCH_V1ALPHA1, "kind": _KIND} | body
    spec = body.get("spec") or {}
    tasks = [
        task | {"template": _own_metadata(task.get("template") or {}, binding)} for task in spec.get("tasks") or ()
    ]
    # Conditions of Volcano's jobs have another form, which nothing here reads.
    status = {key: value for key, value in (body.get("status") or {}).items() if key != "conditions"}
    own = {"apiVersion": names.BATCH_V1ALPHA1, "kind": _KIND, "spec": spec | {"tasks": tasks}, "status": status}
    return _own_metadata(body, binding) | own


def _own_metadata(body: Json, binding: Binding) -> Json:
    metadata = dict(body.get("metadata") or {})
    for field in ("labels", "annotations"):
        if keys := metadata.get(field):
            metadata[field] = dict(with_own_keys(keys, (binding,)))
    return body | {"metadata": metadata}


def with_own_owner(item: Any) -> Any:
    """Return a pod or pod group whose owner is named as the BatchJob that :func:`own_job` makes of it."""
    if not isinstance(item, core.Pod | core.PodGroup):
        return item
    owners = item.metadata.owner_references
    if not any(owner.kind != _KIND and is_job(owner.api_version, owner.kind) for owner in owners):
        return item
    own = tuple(
        replace(owner, api_version=names.BATCH_V1ALPHA1, kind=_KIND) if is_job(owner.api_version, owner.kind) else owner
        for owner in owners
    )
    return replace(item, metadata=replace(item.metadata, owner_references=own))


def is_of(item: Any, bindings: Iterable[Binding]) -> bool:
    """Whether an object belongs to one of these APIs, or to none, as a node or a pod."""
    version = getattr(item, "api_version", None)
    if version is None or not isinstance(item, core.PodGroup | core.Queue):
        return True
    group = version.partition("/")[0]
    return any(group == binding.group(names.SCHEDULING) for binding in bindings)
