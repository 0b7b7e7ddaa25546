"""Changes to the cluster, made or only tried (``--dry-run``), and the line or the document that tells of each."""

import sys
from typing import Any

from volcanopy.cli.framework import documents
from volcanopy.cli.framework.kinds import key_of, resource
from volcanopy.cli.framework.options import Document, Dry, Written
from volcanopy.cli.framework.watch import watch_objects
from volcanopy.kube.client.api_client import Client, Patch, Propagation
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind

_STRICT = {"fieldValidation": "Strict"}
_TRIED = {Dry.none: "", Dry.client: " (dry run)", Dry.server: " (server dry run)"}


class Changes:
    """Makes the changes of one command, or tries them, and tells of each as the options say."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self._told = 0

    @property
    def pretended(self) -> bool:
        """Whether nothing is sent to the server."""
        return self.written.dry_run is Dry.client

    @property
    def options(self) -> dict[str, str]:
        """The parameters of a request: that nothing is to be kept, and that fields nobody knows are to be refused."""
        return _STRICT | ({"dryRun": "All"} if self.written.dry_run is Dry.server else {})

    async def create(self, client: Client, kind: Kind[Json], namespace: str | None, body: Json) -> Json:
        """Create an object."""
        made = body if self.pretended else await client.create(kind, namespace, body, options=self.options)
        self.tell(kind, made, "created")
        return made

    async def patch(
        self,
        client: Client,
        kind: Kind[Json],
        before: Json,
        patch: Any,
        after: Json,
        done: str,
        form: Patch = Patch.MERGE,
    ) -> Json:
        """Change an object; ``after`` is what it is then, for those who only want to see it."""
        where = key_of(before)
        changed = (
            after
            if self.pretended
            else await client.patch(kind, where.namespace or None, where.name, patch, form, options=self.options)
        )
        self.tell(kind, changed, done)
        return changed

    async def delete(
        self, client: Client, kind: Kind[Json], body: Json, propagation: Propagation | None = None
    ) -> None:
        """Delete this very object, not a successor of its name."""
        where, uid = key_of(body), body["metadata"]["uid"]
        if not self.pretended:
            dry = {key: said for key, said in self.options.items() if key == "dryRun"}
            await client.delete(
                kind, where.namespace or None, where.name, uid=uid, propagation=propagation, options=dry
            )
        self.tell(kind, body, "deleted")

    def tell(self, kind: Kind[Json], body: Json, done: str) -> None:
        """Print what was done with an object, or the object itself."""
        output = self.written.output
        if output is Document.name:
            print(documents.name(kind, body), flush=True)
        elif output is not None:
            mark = "---\n" if output is Document.yaml and self._told else ""
            sys.stdout.write(mark + documents.text(documents.whole(kind, body), output))
        else:
            name = body["metadata"].get("name") or f"{body['metadata'].get('generateName', '')}<generated>"
            print(f"{resource(kind)}/{name} {done}{_TRIED[self.written.dry_run]}", flush=True)
        self._told += 1


async def until_gone(client: Client, kind: Kind[Json], body: Json) -> None:
    """Wait until this very object is no more."""
    where, uid = key_of(body), body["metadata"]["uid"]
    namespace = where.namespace or None
    try:
        now = await client.get(kind, namespace, where.name)
    except NotFound:
        return
    if now["metadata"]["uid"] != uid:
        return
    async with watch_objects(client, kind, namespace, fields=f"metadata.name={where.name}") as followed:
        while any(one["metadata"]["uid"] == uid for one in followed.objects.values()):
            await followed.changed()
