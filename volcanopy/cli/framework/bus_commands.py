"""Creation of Command objects, by which users request an action of a controller.

A Command names its target by uid and is owned by it: it cannot reach a later object of the same name, and is deleted
with its target.
"""

from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import COMMANDS, key_of, word
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind


async def send_command(
    client: Client,
    changes: Changes,
    kind: Kind[Json],
    target: Json,
    namespace: str,
    *,
    verb: str,
    action: str,
    result: str,
    message: str,
) -> Json | None:
    """Create a Command for the target and print ``result``; returns the Command, None in a dry run."""
    name = key_of(target).name
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": target["metadata"]["uid"]}
    command: Json = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{name}-{verb}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
        "reason": "Requested",
        "message": message or f"requested by a user: volcanopy {word(kind)} {verb}",
    }
    if not changes.client_only:
        command = await client.create(COMMANDS, namespace, command, options=changes.options)
    changes.report(kind, target, result)
    return None if changes.dry_run else command
