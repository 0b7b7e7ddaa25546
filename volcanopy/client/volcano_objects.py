"""Objects of Volcano's API as those of volcanopy, for snapshots of and what-if questions about a cluster that serves both."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from volcanopy.api import core, names
from volcanopy.api.model import Json
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.kube.cache.name_conflicts import NameConflicts
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import JOBS, POD_GROUPS
from volcanopy.whatif.kinds import field_error


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

    def of(self, apis: ApiViews) -> list[Any]:
        """Return the objects of some APIs, of several with one name that which the scheduler takes."""
        items = [Change(ChangeType.ADDED, item) for item in self.items if is_of(item, apis)]
        objects: dict[tuple[type[Any], str], Any] = {}
        for change in NameConflicts().resolve(items):  # of two, the one that is taken comes last
            objects[type(change.object), change.object.metadata.key] = change.object
        return list(objects.values())


async def unfinished_jobs(client: Client) -> list[Json]:
    """Return the unfinished jobs of the API that the client is a view of.

    None of another API than volcanopy's that the user may not read.
    """
    try:
        bodies = (await client.list(JOBS)).items
    except (NotFound, Forbidden):
        if client.api == names.API:
            raise
        return []
    return [body for body in bodies if not _is_finished(body)]


def _is_finished(body: Json) -> bool:
    return ((body.get("status") or {}).get("state") or {}).get("phase") in FINISHED


def served(apis: ApiViews, jobs: Iterable[Json], objects: Iterable[Any]) -> ApiViews:
    """Return those of the APIs whose jobs and pod groups volcanopy handles, as these show.

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
    return apis.only(
        lambda view: (
            view.api == names.API or not groups.isdisjoint(view.of_api(kind).group for kind in (JOBS, POD_GROUPS))
        )
    )


def _annotations(body: Json) -> Json:
    return body["metadata"].get("annotations") or {}


def own_job(body: Json) -> Json:
    """Return a job as a BatchJob; conditions of Volcano's jobs have another form, which nothing here reads."""
    if body.get("apiVersion") != names.BATCH_V1ALPHA1:
        body = body | {"status": {key: part for key, part in (body.get("status") or {}).items() if key != "conditions"}}
    return body | {"apiVersion": names.BATCH_V1ALPHA1, "kind": names.JOB_KIND}


def is_of(item: Any, apis: ApiViews) -> bool:
    """Whether an object belongs to one of these APIs, or to none, as a node or a pod."""
    version = getattr(item, "api_version", None)
    if version is None or not isinstance(item, core.PodGroup | core.Queue):
        return True
    group = version.partition("/")[0]
    return group in {kind.group for kind in apis.kinds(POD_GROUPS)}
