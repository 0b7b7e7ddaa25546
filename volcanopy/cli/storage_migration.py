"""``volcanopy migrate-storage``: store all objects of volcanopy's kinds in one version of their API group.

1. Make the version the storage version of each definition that serves it.
2. Wait until every API server uses it.
3. Write each object once without a change, which stores it in that version.
4. Remove the other versions from ``status.storedVersions`` of each definition whose objects are all written.

The versions of a kind have the same fields, so a migration in either direction loses nothing.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from volcanopy.api.crd import RESOURCES, Resource
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import ApiError, Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind

DEFINITIONS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
_WRITERS = 16
"""Number of objects that are written at once."""
_REPORTED = 5
"""Number of objects of a kind whose errors are printed."""


@dataclass
class _Outcome:
    written: int = 0
    errors: list[str] = field(default_factory=list)


async def migrate(cluster: ClusterOptions, version: str | None, settle: float) -> None:
    """Migrate the objects of all kinds; by default to the present storage version of each.

    Raises CommandError if no kind has ``version`` or an object could not be written; the others are migrated nevertheless.
    """
    async with cluster.client() as client:
        kinds = [
            (resource, definition)
            for resource in RESOURCES
            if (definition := await _definition(client, resource.name)) is not None
        ]
        if not kinds:
            raise CommandError("the cluster has no definitions of volcanopy: nothing is stored")
        if version is not None:
            kinds = [(resource, definition) for resource, definition in kinds if version in _versions(definition)]
            if not kinds:
                raise CommandError(f"--to {version}: no definition in the cluster has this version", 2)
        changed = [await _store_in(client, definition, version) for _, definition in kinds]
        if any(changed) and settle:
            print(f"waiting {settle:g} s until all API servers use the new storage version", file=sys.stderr)
            await asyncio.sleep(settle)
        failed = [resource.plural for resource, _ in kinds if not await _migrate(client, resource)]
    if failed:
        raise CommandError(
            f"{', '.join(failed)}: not migrated: correct or delete these objects, and run the command again"
        )


async def _definition(client: Client, name: str) -> Json | None:
    try:
        return await client.get(DEFINITIONS, None, name)
    except NotFound:
        return None


def _versions(definition: Json) -> list[str]:
    return [version["name"] for version in definition["spec"]["versions"]]


def _storage(definition: Json) -> str:
    name: str = next(version["name"] for version in definition["spec"]["versions"] if version["storage"])
    return name


async def _store_in(client: Client, definition: Json, version: str | None) -> bool:
    """Make a version the storage version of a definition; return whether it was another one."""
    if version is None or _storage(definition) == version:
        return False
    metadata = definition["metadata"]
    versions = [{**entry, "storage": entry["name"] == version} for entry in definition["spec"]["versions"]]
    change = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"versions": versions}}
    try:
        await client.patch(DEFINITIONS, None, metadata["name"], change)
    except Conflict:
        raise CommandError(f"{metadata['name']} was changed by another client: run the command again") from None
    return True


async def _migrate(client: Client, resource: Resource) -> bool:
    """Write all objects of a kind, and forget its other stored versions; return whether every object could be written."""
    definition = await client.get(DEFINITIONS, None, resource.name)
    storage, stored = _storage(definition), definition["status"]["storedVersions"]
    if stored == [storage]:
        print(f"{resource.plural}: all objects are stored in {storage}")
        return True
    group = definition["spec"]["group"]
    kind: Kind[Json] = Kind(group, storage, resource.kind, resource.plural, resource.namespaced, dict)
    outcome = await _write_all(client, kind)
    if outcome.errors:
        for error in outcome.errors[:_REPORTED]:
            print(error, file=sys.stderr)
        print(
            f"{resource.plural}: {len(outcome.errors)} of {outcome.written + len(outcome.errors)} objects cannot be written"
        )
        return False
    # With the version that was read: if another client changes the storage version, this is a conflict.
    change = {
        "metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]},
        "status": {"storedVersions": [storage]},
    }
    try:
        await client.patch(DEFINITIONS, None, resource.name, change, subresource="status")
    except Conflict:
        raise CommandError(f"{resource.name} was changed by another client: run the command again") from None
    print(f"{resource.plural}: {outcome.written} objects stored in {storage}, none in {_others(stored, storage)}")
    return True


def _others(stored: Sequence[str], storage: str) -> str:
    return ", ".join(name for name in stored if name != storage)


async def _write_all(client: Client, kind: Kind[Json]) -> _Outcome:
    outcome = _Outcome()
    # Objects that are created from now on are stored in the storage version.
    names = iter([kind.identify(item) for item in (await client.list(kind)).items])

    async def write() -> None:
        for item in names:
            try:
                await client.patch(kind, item.namespace or None, item.name, {}, PatchType.MERGE)
            except NotFound:
                continue  # deleted meanwhile
            except ApiError as error:
                outcome.errors.append(f"{kind.plural} {item.key}: {error}")
            else:
                outcome.written += 1

    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    return outcome
