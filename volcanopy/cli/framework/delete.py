"""Deleting objects, whatever their kind: by name, by label, by file, or all of a namespace; and waiting for their end."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes, until_gone
from volcanopy.cli.framework.durations import seconds
from volcanopy.cli.framework.kinds import key_of, word
from volcanopy.cli.framework.objects import bare_name, for_each, not_found_error, select_objects
from volcanopy.cli.framework.options import Chosen, Deletion, Dry, Written
from volcanopy.cli.manifests import Manifest, read
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Propagation

_PROPAGATION: dict[str, "Propagation"] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


async def delete(
    client: Client, kind: Kind[Json], namespace: str | None, written: Written, which: Chosen, how: Deletion
) -> None:
    """Delete what is meant; names that are not there are said, and the others deleted."""
    if sum(map(bool, (how.files, which.names, which.selector, which.everything))) > 1:
        raise CommandError("give names, or -l, or --all, or files: not several of them", 2)
    deleter = _Deleter(client, written, how)
    if how.files:
        await deleter.of_files(how.files, namespace)
    elif which.names:
        names = [bare_name(kind, name) for name in which.names]
        await for_each(names, lambda name: deleter.named(kind, namespace, name))
    else:
        bodies = await select_objects(client, kind, namespace, (), which.selector, everything=which.everything)
        if not bodies:
            print(f"No {kind.plural} found" + (f" in namespace {namespace}." if namespace else "."))
        await for_each(bodies, lambda body: deleter.end(kind, body))
    await deleter.until_gone()


class _Deleter:
    """Deletes one object after the other, and remembers them."""

    def __init__(self, client: Client, written: Written, how: Deletion) -> None:
        self._client, self._how = client, how
        self._changes = Changes(written)
        self._limit = seconds("--timeout", how.timeout)
        self._ended: list[tuple[Kind[Json], Json]] = []

    async def named(self, kind: Kind[Json], namespace: str | None, name: str) -> None:
        """Delete the object of that name; raises Stop when there is none, unless that is fine."""
        try:
            body = await self._client.get(kind, namespace, name)
        except NotFound as fault:
            if self._how.ignore_not_found and fault.details and fault.details.name:
                return
            raise await not_found_error(self._client, kind, namespace, name, fault) from None
        await self.end(kind, body)

    async def of_files(self, files: Sequence[str], namespace: str | None) -> None:
        """Delete the objects of manifests, what others refer to last."""
        from volcanopy.local.manifests import Creator, RefusedError

        creator = Creator(self._client)

        async def one(manifest: Manifest) -> None:
            try:
                kind = await creator.kind(manifest.body)
            except RefusedError as refusal:
                raise CommandError(f"{manifest.place}: {refusal.why}") from None
            metadata = manifest.body.get("metadata") or {}
            if not metadata.get("name"):
                raise CommandError(f"{manifest.place}: it has no name by which it could be deleted", 2)
            where = (metadata.get("namespace") or namespace) if kind.namespaced else None
            await self.named(kind, where, metadata["name"])

        await for_each(reversed(read(files)), one)

    async def end(self, kind: Kind[Json], body: Json) -> None:
        """Delete this very object."""
        await self._changes.delete(self._client, kind, body, _PROPAGATION[self._how.cascade.value])
        self._ended.append((kind, body))

    async def until_gone(self) -> None:
        """Wait until all that was deleted is gone; raises Stop when the time is up."""
        if not self._how.wait or self._changes.written.dry_run is not Dry.none:
            return
        try:
            async with asyncio.timeout(self._limit):
                for kind, body in self._ended:
                    await until_gone(self._client, kind, body)
        except TimeoutError:
            sentence = f"timed out after {self._how.timeout}: {word(kind)} {key_of(body).name} is asked to go, but is there yet"
            raise CommandError(sentence) from None
