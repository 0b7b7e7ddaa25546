"""Manifests from files into the cluster: created, or applied so that what exists becomes what the files say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volcanopy.api.crd import RESOURCES
from volcanopy.api.model import InvalidObjectError
from volcanopy.cli.errors import CommandError, cluster_error
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.objects import for_each
from volcanopy.cli.framework.options import Cluster, Written
from volcanopy.cli.manifests import Manifest, read
from volcanopy.kube.client.api_client import Patch
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind

if TYPE_CHECKING:
    from volcanopy.kube.client.api_client import Client
    from volcanopy.local.manifests import Creator

_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "Queue", "JobTemplate")
"""Kinds that others refer to, in the order in which they are made; everything else follows in its own order."""


async def put(
    cluster: Cluster,
    namespace: str | None,
    files: Sequence[str],
    written: Written,
    *,
    about: str,
    apply: bool,
    take_over: bool = False,
) -> list[Json]:
    """Put all objects of the files into the cluster; gives those of the kind that the command is ``about``.

    Raises Stop, before anything is sent, when there is no object of that kind in them, or one of ours that our own
    models refuse. What the server refuses is said for each object, and the others are made nevertheless.
    """
    manifests = sorted(read(files), key=_rank)
    if not any(one.kind == about for one in manifests):
        raise CommandError(f"there is no {about} in {', '.join(files)}", 2)
    for manifest in manifests:
        _check(manifest)
    changes = Changes(written)
    if changes.pretended:
        made = [_pretend(manifest, namespace, changes) for manifest in manifests]
        return [one for one in made if one["kind"] == about]
    async with cluster.client() as client:
        from volcanopy.local.manifests import Creator

        making = _Making(client, Creator(client), namespace or client.connection.namespace, changes, apply, take_over)
        made = await for_each(manifests, making.put)
    return [one for one in made if one.get("kind") == about]


def _rank(manifest: Manifest) -> int:
    return _FIRST.index(manifest.kind) if manifest.kind in _FIRST else len(_FIRST)


def _check(manifest: Manifest) -> None:
    """Refuse what our own models refuse, with the place where it stands."""
    found = (one.model for one in RESOURCES if one.kind == manifest.kind)
    model = next((one for one in found if one.model_fields["api_version"].default == manifest.body["apiVersion"]), None)
    if model is None:
        return
    try:
        model.read(manifest.body, unknown="forbid")
    except InvalidObjectError as fault:
        said = "; ".join(f"{one.path}: {one.message}" for one in fault.problems)
        raise CommandError(f"{manifest.place}: {said}", 2) from None


def _pretend(manifest: Manifest, namespace: str | None, changes: Changes) -> Json:
    body = manifest.body
    if namespace and not (body.get("metadata") or {}).get("namespace"):
        body = {**body, "metadata": {**(body.get("metadata") or {}), "namespace": namespace}}
    group, _, version = str(body["apiVersion"]).rpartition("/")
    kind: Kind[Json] = Kind(group, version, manifest.kind, "", False, dict)
    changes.tell(kind, body, "created")
    return body


class _Making:
    """Puts one manifest after the other into a cluster."""

    def __init__(
        self, client: "Client", creator: "Creator", namespace: str, changes: Changes, apply: bool, take_over: bool
    ) -> None:
        self._client, self._creator, self._namespace = client, creator, namespace
        self._changes, self._apply, self._take_over = changes, apply, take_over

    async def put(self, manifest: Manifest) -> Json:
        """Create it, or apply it where there is one of its name."""
        from volcanopy.local.manifests import RefusedError

        try:
            return await self._put(manifest.body)
        except RefusedError as refusal:
            raise CommandError(f"{manifest.place}: {refusal.why}") from None
        except KubeError as fault:
            raise CommandError(f"{manifest.place}: {cluster_error(fault) or fault}") from None

    async def _put(self, body: Json) -> Json:
        kind = await self._creator.kind(body)
        metadata = body.get("metadata") or {}
        namespace = (metadata.get("namespace") or self._namespace) if kind.namespaced else None
        if not metadata.get("name") or not self._apply:
            made = await self._client.create(kind, namespace, body, options=self._changes.options)
            self._changes.tell(kind, made, "created")
            return made
        before = await self._present(kind, namespace, metadata["name"])
        made = await self._client.patch(
            kind,
            namespace,
            metadata["name"],
            body,
            Patch.APPLY,
            force=self._take_over,
            options=self._changes.options,
        )
        self._changes.tell(kind, made, _outcome(before, made))
        return made

    async def _present(self, kind: Kind[Json], namespace: str | None, name: str) -> Json | None:
        try:
            return await self._client.get(kind, namespace, name)
        except NotFound:
            return None


def _outcome(before: Json | None, made: Json) -> str:
    if before is None:
        return "created"
    return "unchanged" if _said(before) == _said(made) else "configured"


def _said(body: Json) -> Json:
    """What people say of an object: its controllers may write its status at the same moment."""
    metadata = {key: body["metadata"].get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers")}
    return {**{key: part for key, part in body.items() if key != "status"}, "metadata": metadata}
