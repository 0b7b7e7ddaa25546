"""Deletion of objects of any kind: by name, label or file, or all of a namespace; optionally waiting until they are gone."""

import asyncio
from collections.abc import Sequence

from volcanopy.cli.framework.changes import ChangeWriter
from volcanopy.cli.framework.options import DeleteOptions, Selection, WriteOptions
from volcanopy.cli.framework.selection import for_each, select_objects
from volcanopy.cli.manifests import Manifest, read
from volcanopy.client.durations import seconds
from volcanopy.client.errors import CommandError
from volcanopy.client.kinds import key_of, word
from volcanopy.client.objects import bare_name, not_found_error
from volcanopy.client.watch import wait_until_deleted
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind


async def delete(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    write: WriteOptions,
    selection: Selection,
    options: DeleteOptions,
) -> None:
    """Delete the selected objects; missing names are reported, and the others deleted."""
    if sum(map(bool, (options.files, selection.names, selection.selector, selection.all_objects))) > 1:
        raise CommandError("use only one of NAME, -l, --all and -f", 2)
    deleter = _Deleter(client, write, options)
    if options.files:
        await deleter.delete_files(options.files, namespace)
    elif selection.names:
        names = [bare_name(kind, name) for name in selection.names]
        await for_each(names, lambda name: deleter.delete_named(kind, namespace, name))
    else:
        bodies = await select_objects(client, kind, namespace, selection)
        await for_each(bodies, lambda body: deleter.delete(kind, body))
    await deleter.wait()


class _Deleter:
    """Deletes objects and remembers them."""

    def __init__(self, client: Client, write: WriteOptions, options: DeleteOptions) -> None:
        self._client, self._options = client, options
        self._changes = ChangeWriter(write)
        self._timeout = seconds("--timeout", options.timeout)
        self._deleted: list[tuple[Kind[Json], Json]] = []

    async def delete_named(self, kind: Kind[Json], namespace: str | None, name: str) -> None:
        """Delete the object of that name; raises CommandError when it is missing, unless that is ignored."""
        try:
            body = await self._client.get(kind, namespace, name)
        except NotFound as fault:
            if self._options.ignore_not_found and fault.details and fault.details.name:
                return
            raise await not_found_error(self._client, kind, namespace, name, fault) from None
        await self.delete(kind, body)

    async def delete_files(self, files: Sequence[str], namespace: str | None) -> None:
        """Delete the objects of manifests in reverse order."""
        from volcanopy.client.manifests import CreateError, Creator

        creator = Creator(self._client)

        async def delete_manifest(manifest: Manifest) -> None:
            try:
                kind = await creator.kind(manifest.body)
            except CreateError as fault:
                raise CommandError(f"{manifest.place}: {fault.why}") from None
            metadata = manifest.body.get("metadata") or {}
            if not metadata.get("name"):
                raise CommandError(
                    f"{manifest.place}: metadata.name is missing: only objects with a name can be deleted", 2
                )
            where = (metadata.get("namespace") or namespace) if kind.namespaced else None
            await self.delete_named(kind, where, metadata["name"])

        await for_each(reversed(read(files)), delete_manifest)

    async def delete(self, kind: Kind[Json], body: Json) -> None:
        """Delete this object."""
        await self._changes.delete(self._client, kind, body)
        self._deleted.append((kind, body))

    async def wait(self) -> None:
        """Wait until all deleted objects are gone; raises CommandError at the timeout."""
        if not self._options.wait or self._changes.dry_run:
            return
        try:
            async with asyncio.timeout(self._timeout):
                for kind, body in self._deleted:
                    await wait_until_deleted(self._client, kind, body)
        except TimeoutError:
            message = (
                f'timed out after {self._options.timeout}: {word(kind)} "{key_of(body).name}" is still being deleted'
            )
            raise CommandError(message) from None
