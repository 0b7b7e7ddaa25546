"""Discovery: the kinds that an API server serves."""

import msgspec

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound


class ServedKind(msgspec.Struct):
    """A kind that is served: the plural in its path, its name, and whether its objects have namespaces."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[ServedKind] = []


async def served_kinds(client: Client, api_version: str) -> list[ServedKind]:
    """Return the kinds of an API version, none where it is not served. Raises KubeError, MsgspecError."""
    try:
        answer = await client.get_raw(f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")
    except NotFound:
        return []
    resources = msgspec.json.decode(answer, type=_Resources).resources
    return [resource for resource in resources if "/" not in resource.name]
