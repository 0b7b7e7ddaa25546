"""Objects of Volcano's API as those of volcanopy, for snapshots of and what-if questions about a cluster that serves both."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding, is_job, with_own_keys
from volcanopy.api.model import Json
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.kube.cache.name_conflicts import NameConflicts
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import JOBS, bound
from volcanopy.whatif.kinds import field_error

_KIND = "BatchJob"


@dataclass
class ApiObjects:
    """The objects of a cluster, as they are read."""

    items: list[Any] = field(default_factory=list)

    def take(self, changes: Iterable[Change[Any]]) -> None:
        """Add objects. One that cannot be read is left out, with a warning on standard error."""
        for change in changes:
            if change.type is ChangeType.UNREADABLE:
                name = f'{type(change.object).__name__} "{change.object.metadata.key}"'
                sys.stderr.write(f"Warning: {name} cannot be read and is left out: {field_error(change.error)}\n")
            else:
                self.items.append(change.object)

    def of(self, bindings: Sequence[Binding]) -> list[Any]:
        """Return the objects of some APIs, of several with one name that which the scheduler takes."""
        items = [Change(ChangeType.ADDED, item) for item in self.items if is_of(item, bindings)]
        known: dict[tuple[type[Any], str], Any] = {}
        for change in NameConflicts().resolve(items):  # of two, the one that is taken comes last
            known[type(change.object), change.object.metadata.key] = change.object
        return list(known.values())


async def unfinished_jobs(client: Client, binding: Binding) -> list[Json]:
    """Return the unfinished jobs of an API; none of another API than volcanopy's that the user may not read."""
    kind = bound(JOBS, binding)
    try:
        bodies = (await client.list(kind)).items
    except (NotFound, Forbidden):
        if binding is VOLCANOPY:
            raise
        return []
    return [{"apiVersion": kind.api_version} | body for body in bodies if not _is_finished(body)]


def _is_finished(body: Json) -> bool:
    return ((body.get("status") or {}).get("state") or {}).get("phase") in FINISHED


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
    for part in ("labels", "annotations"):
        if keys := metadata.get(part):
            metadata[part] = dict(with_own_keys(keys, (binding,)))
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
