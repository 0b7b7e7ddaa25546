"""Command objects: requests of users to a controller.

A Command names its target by uid and is owned by it: it cannot reach a later object of the same name, and is deleted with
its target.
"""

from dataclasses import dataclass

from volcanopy.client.kinds import key_of, word
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, of_object


@dataclass(frozen=True)
class CommandRequest:
    """What the user requests of a controller."""

    verb: str
    message: str
    timeout: float | None
    """Seconds to wait until the controller has processed the Command; None does not wait."""


def command_for(kind: Kind[Json], target: Json, namespace: str, request: CommandRequest, action: str) -> Json:
    """Return the manifest of a Command for the target."""
    name = key_of(target).name
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": target["metadata"]["uid"]}
    return {
        "apiVersion": of_object(COMMANDS, kind.api_version).api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{name}-{request.verb}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
        "reason": "Requested",
        "message": request.message or f"requested by a user: volcanopy {word(kind)} {request.verb}",
    }
