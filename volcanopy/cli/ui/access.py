"""The sender of a request as the API server knows it: the name of the user, and whether they may do something."""

from typing import Any

from volcanopy.api.model import Json
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind

_REVIEWS: Kind[Json] = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, dict
)
_USERS: Kind[Json] = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, dict)


async def is_allowed(client: Client, verb: str, kind: Kind[Any], namespace: str | None) -> bool:
    """Whether the user may do this with objects of a kind, in a namespace or in all. Raises KubeError."""
    kind = client.of_api(kind)
    attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
    if namespace and kind.namespaced:
        attributes["namespace"] = namespace
    answer = await client.create(_REVIEWS, None, _body(_REVIEWS) | {"spec": {"resourceAttributes": attributes}})
    return bool((answer.get("status") or {}).get("allowed"))


async def user_name(client: Client) -> str:
    """Return the name of the user as the API server knows it. Raises KubeError."""
    answer = await client.create(_USERS, None, _body(_USERS))
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))


def _body(kind: Kind[Json]) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
