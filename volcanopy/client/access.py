"""The sender of a request as the API server knows it: the name of the user, and whether they may do something."""

import asyncio
from collections.abc import Iterable
from typing import Any

from volcanopy.kube.cache.followed_kinds import NODES, PODS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError
from volcanopy.kube.client.kinds import Json, Kind

_REVIEWS: Kind[Json] = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, dict
)
_NAMESPACES: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)
_MOST = 500
"""Most namespaces that are asked about, with a request for each."""
_USERS: Kind[Json] = Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, dict)


async def is_allowed(client: Client, verb: str, kind: Kind[Any], namespace: str | None) -> bool:
    """Whether the user may do this with objects of a kind, in a namespace or in all. Raises KubeError."""
    kind = client.of_api(kind)
    attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
    if namespace and kind.namespaced:
        attributes["namespace"] = namespace
    answer = await client.create(_REVIEWS, None, _body(_REVIEWS) | {"spec": {"resourceAttributes": attributes}})
    return bool((answer.get("status") or {}).get("allowed"))


async def reads_cluster(client: Client) -> bool:
    """Whether the user may list the nodes and the pods of all namespaces, as a snapshot needs."""
    try:
        return all(await asyncio.gather(*(is_allowed(client, "list", kind, None) for kind in (NODES, PODS))))
    except KubeError:
        return False


async def namespaces(client: Client) -> list[str]:
    """Return the names of the namespaces, none for those who may not list them. Raises NoAnswer."""
    try:
        return [body["metadata"]["name"] for body in (await client.list(_NAMESPACES)).items]
    except ApiError:
        return []


async def readable(client: Client, kind: Kind[Any], names: Iterable[str]) -> list[str]:
    """Return those of these namespaces in which the user may list objects of a kind, of the first 500. Raises KubeError."""
    candidates = sorted(set(names))[:_MOST]
    answers = await asyncio.gather(*(is_allowed(client, "list", kind, name) for name in candidates))
    return [name for name, answer in zip(candidates, answers, strict=True) if answer]


async def user_name(client: Client) -> str:
    """Return the name of the user as the API server knows it. Raises KubeError."""
    answer = await client.create(_USERS, None, _body(_USERS))
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))


def _body(kind: Kind[Json]) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
