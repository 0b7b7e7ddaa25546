"""Creates objects of any kind from manifests, with strict validation; creates missing namespaces."""

import contextlib
from collections.abc import Iterable

from volcanopy.api import names
from volcanopy.api.volcano_crds import crds_of_api
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import AlreadyExists, KubeError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import NAMESPACES, served_kinds

DEFINITIONS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "Queue", "Node")
"""Kinds that are created first, in this order; all others follow in the order of the manifests."""


class CreateError(Exception):
    """The server rejected an object; the message has its kind and name."""

    def __init__(self, body: Json, why: str) -> None:
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "without a name"
        self.body, self.why = body, why
        super().__init__(f"{body.get('kind')} {name}: {why}")


class Creator:
    """Creates objects of any kind; caches the kinds of the server."""

    def __init__(self, client: Client, namespace: str = "default") -> None:
        """``namespace`` is the default namespace."""
        self._client, self._namespace = client, namespace
        self._kinds: dict[tuple[str, str], Kind[Json]] = {}
        self._present: set[str] = set()

    async def install_definitions(self, api: str = names.API) -> None:
        """Create or update the CRDs of an API."""
        for body in crds_of_api(api):
            await self._client.patch(DEFINITIONS, None, body["metadata"]["name"], body, PatchType.APPLY, force=True)

    async def create(self, bodies: Iterable[Json]) -> list[Json]:
        """Create the objects, or change those that exist. Raises CreateError."""
        objects = []
        for body in sorted(bodies, key=_rank):
            try:
                objects.append(await self._create(body))
            except KubeError as fault:
                raise CreateError(body, str(fault)) from fault
        return objects

    async def _create(self, body: Json) -> Json:
        kind = await self.kind(body)
        metadata = body.get("metadata") or {}
        namespace = (metadata.get("namespace") or self._namespace) if kind.namespaced else None
        if namespace:
            await self._need_namespace(namespace)
        path = f"{kind.path(namespace)}?fieldManager=volcanopy&fieldValidation=Strict"
        try:
            return kind.decode(await self._client.post_raw(path, body))
        except AlreadyExists:
            return await self._client.patch(kind, namespace, metadata["name"], body)

    async def kind(self, body: Json) -> Kind[Json]:
        """Return the kind of an object. Raises CreateError if the server does not serve it."""
        api_version, name = str(body.get("apiVersion")), str(body.get("kind"))
        kind = self._kinds.get((api_version, name))
        if kind is None:
            kind = self._kinds[api_version, name] = await self._discover(body, api_version, name)
        return kind

    async def _discover(self, body: Json, api_version: str, name: str) -> Kind[Json]:
        group, _, version = api_version.rpartition("/")
        kinds = await served_kinds(self._client, api_version)
        if not kinds:
            raise CreateError(body, f"the cluster does not serve apiVersion {api_version}")
        for resource in kinds:
            if resource.kind == name:
                return Kind(group, version, name, resource.name, resource.namespaced, dict)
        raise CreateError(body, f"the cluster does not serve kind {name} of {api_version}")

    async def _need_namespace(self, name: str) -> None:
        if name in self._present:
            return
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NAMESPACES, None, _namespace(name))
        self._present.add(name)


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _rank(body: Json) -> int:
    kind = str(body.get("kind"))
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
