"""Changes to the cluster, applied or as a dry run, with the line or document printed for each.

A Command object requests an action of a controller. It names its target by uid and is owned by it: it cannot reach a later
object of the same name, and is deleted with its target.
"""

import sys
from typing import Any

from volcanopy.cli.framework import documents
from volcanopy.cli.framework.options import Document, DryRun, WriteOptions
from volcanopy.client.commands import CommandRequest, command_for
from volcanopy.client.kinds import key_of, resource
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS

_STRICT = {"fieldValidation": "Strict"}
_SUFFIX = {DryRun.none: "", DryRun.client: " (dry run)", DryRun.server: " (server dry run)"}


class ChangeWriter:
    """Applies the changes of one command, or dry-runs them, and prints each result."""

    def __init__(self, write: WriteOptions) -> None:
        self.write = write
        self._printed = 0

    @property
    def client_only(self) -> bool:
        """Whether nothing is sent to the server."""
        return self.write.dry_run is DryRun.client

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored."""
        return self.write.dry_run is not DryRun.none

    @property
    def options(self) -> dict[str, str]:
        """Request parameters: the dry run, and rejection of unknown fields."""
        return _STRICT | ({"dryRun": "All"} if self.write.dry_run is DryRun.server else {})

    async def create(self, client: Client, kind: Kind[Json], namespace: str | None, body: Json) -> Json:
        """Create an object."""
        created = body if self.client_only else await client.create(kind, namespace, body, options=self.options)
        self.report(kind, created, "created")
        return created

    async def patch(
        self,
        client: Client,
        kind: Kind[Json],
        before: Json,
        patch: Any,
        after: Json,
        result: str,
        form: PatchType = PatchType.MERGE,
    ) -> Json:
        """Change an object; ``after`` is its expected state, printed by a client-side dry run."""
        key = key_of(before)
        changed = (
            after
            if self.client_only
            else await client.patch(kind, key.namespace or None, key.name, patch, form, options=self.options)
        )
        self.report(kind, changed, result)
        return changed

    async def delete(self, client: Client, kind: Kind[Json], body: Json) -> None:
        """Delete this object, identified by its uid, and then its dependents."""
        key, uid = key_of(body), body["metadata"]["uid"]
        if not self.client_only:
            dry = {name: value for name, value in self.options.items() if name == "dryRun"}
            await client.delete(kind, key.namespace or None, key.name, uid=uid, propagation="Background", options=dry)
        self.report(kind, body, "deleted")

    def report(self, kind: Kind[Json], body: Json, result: str) -> None:
        """Print the result for an object, or the object itself."""
        output = self.write.output
        if output is Document.name:
            print(documents.name(kind, body), flush=True)
        elif output is not None:
            mark = "---\n" if output is Document.yaml and self._printed else ""
            sys.stdout.write(mark + documents.text(documents.whole(kind, body), output))
        else:
            name = body["metadata"].get("name") or f"{body['metadata'].get('generateName', '')}<generated>"
            print(f"{resource(kind)}/{name} {result}{_SUFFIX[self.write.dry_run]}", flush=True)
        self._printed += 1


async def send_command(
    client: Client,
    changes: ChangeWriter,
    kind: Kind[Json],
    target: Json,
    namespace: str,
    request: CommandRequest,
    action: str,
    result: str,
) -> Json | None:
    """Create a Command for the target and print ``result``; returns the Command, None in a dry run."""
    command = command_for(kind, target, namespace, request, action)
    if not changes.client_only:
        command = await client.create(COMMANDS, namespace, command, options=changes.options)
    changes.report(kind, target, result)
    return None if changes.dry_run else command
