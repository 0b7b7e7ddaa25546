"""Changes of a cluster: edits, creations and deletions of objects, and of the scheduler's configuration."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from volcanopy.api.model import Json
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import delete_pod


class Edit(NamedTuple):
    """Replace an object by a changed copy. ``change`` gets a deep copy of the manifest and returns the new one."""

    kind: str
    key: str
    change: Callable[[Json], Json]


class Create(NamedTuple):
    """Add an object."""

    body: Json


class Delete(NamedTuple):
    """Delete an object, if it exists; the usage of quotas follows."""

    kind: str
    key: str


class Configure(NamedTuple):
    """Change the configuration; ``document`` has the changed fields of the configuration file."""

    change: Callable[[SchedulerConfig], SchedulerConfig]
    document: Json


Step = Edit | Create | Delete | Configure
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Change:
    """A change as data: whole objects to add or replace, ``Kind namespace/name`` to delete, fields of the configuration."""

    apply: tuple[Json, ...] = ()
    delete: tuple[str, ...] = ()
    configuration: Json = field(default_factory=dict)


def perform(cluster: Cluster, steps: Iterable[Step], config: SchedulerConfig) -> SchedulerConfig:
    """Apply steps to a cluster, in order; return the configuration after them. Raises kinds.ManifestError."""
    for step in steps:
        match step:
            case Edit(kind, key, change):
                if (kind, key) in cluster.objects:
                    cluster.put_manifest(change(deepcopy(cluster.body(kind, key))))
            case Create(body):
                cluster.put_manifest(body)
            case Delete("Pod", key):
                delete_pod(cluster, key)
            case Delete(kind, key):
                cluster.remove(kind, key)
            case Configure(change_config, _):
                config = change_config(config)
    return config


def as_data(cluster: Cluster, steps: Steps, config: SchedulerConfig) -> Change:
    """Return what steps change, as data. The cluster stays as it is."""
    document: Json = {}
    for step in steps:
        if isinstance(step, Configure):
            document |= step.document
    with cluster.trial():
        before = cluster.mark()
        perform(cluster, steps, config)
        changes = cluster.changes_since(before)
        applied = tuple(cluster.body(*key) for key in changes if key in cluster.objects)
        deleted = tuple(f"{kind} {name}" for kind, name in changes if (kind, name) not in cluster.objects)
    return Change(applied, deleted, document)


def perform_data(cluster: Cluster, change: Change) -> None:
    """Apply the objects and deletions of a change, as a user would. Raises kinds.ManifestError."""
    for entry in change.delete:
        kind, _, key = entry.partition(" ")
        cluster.remove(kind, key)
    for body in change.apply:
        cluster.put_manifest(body)
