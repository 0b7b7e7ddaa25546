"""Creation and server-side apply of manifests from files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volcanopy.admission.jobs import job_problems
from volcanopy.api.batch import BatchJob
from volcanopy.api.crd import RESOURCES
from volcanopy.cli.framework.changes import ChangeWriter
from volcanopy.cli.framework.options import ClusterOptions, WriteOptions
from volcanopy.cli.framework.selection import for_each
from volcanopy.cli.manifests import Manifest, read
from volcanopy.client.errors import CommandError, cluster_error
from volcanopy.kube.client.api_client import PatchType
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind

if TYPE_CHECKING:
    from volcanopy.client.manifests import Creator
    from volcanopy.kube.client.api_client import Client

_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "Queue", "JobTemplate")
"""Kinds that others refer to, in the order of their creation; other kinds follow in the order of the files."""


async def apply_files(
    cluster: ClusterOptions,
    namespace: str | None,
    files: Sequence[str],
    write: WriteOptions,
    *,
    kind: str,
    create_only: bool = False,
    force_conflicts: bool = False,
) -> None:
    """Create or apply all objects of the files.

    Raises CommandError, before anything is sent, when they contain no object of ``kind`` or an invalid one. What the
    server rejects is reported for each object, and the others are applied nevertheless.
    """
    manifests = sorted(read(files), key=_rank)
    if not any(manifest.kind == kind for manifest in manifests):
        raise CommandError(f"no {kind} in {', '.join(files)}", 2)
    for manifest in manifests:
        validate(manifest)
    changes = ChangeWriter(write)
    if changes.client_only:
        for manifest in manifests:
            _print_only(manifest, namespace, changes)
        return
    async with cluster.client() as client:
        from volcanopy.client.manifests import Creator

        where = namespace or client.connection.namespace
        applier = _Applier(client, Creator(client), where, changes, create_only, force_conflicts)
        await for_each(manifests, applier.apply)


def _rank(manifest: Manifest) -> int:
    return _FIRST.index(manifest.kind) if manifest.kind in _FIRST else len(_FIRST)


def validate(manifest: Manifest) -> None:
    """Raise CommandError where an object of a kind of ours is invalid, whatever the cluster contains."""
    resources = (item for item in RESOURCES if item.kind == manifest.kind)
    model = next((item.model for item in resources if manifest.body["apiVersion"] == item.api_version), None)
    if model is None:
        return
    problems = job_problems(manifest.body, lambda _: ()) if model is BatchJob else model.problems(manifest.body)
    if text := "; ".join(map(str, problems)):
        raise CommandError(f"{manifest.place}: {text}", 2)


def _print_only(manifest: Manifest, namespace: str | None, changes: ChangeWriter) -> None:
    body = manifest.body
    metadata = body.get("metadata") or {}
    if namespace and not metadata.get("namespace"):
        body = {**body, "metadata": {**metadata, "namespace": namespace}}
    group, _, version = str(body["apiVersion"]).rpartition("/")
    changes.report(Kind(group, version, manifest.kind, "", False, dict), body, "created")


@dataclass(frozen=True)
class _Applier:
    """Applies one manifest after the other."""

    client: "Client"
    creator: "Creator"
    namespace: str
    changes: ChangeWriter
    create_only: bool
    force_conflicts: bool

    async def apply(self, manifest: Manifest) -> None:
        """Create the object, or apply it where there is one of its name."""
        from volcanopy.client.manifests import CreateError

        try:
            await self._apply(manifest.body)
        except CreateError as fault:
            raise CommandError(f"{manifest.place}: {fault.why}") from None
        except KubeError as fault:
            raise CommandError(f"{manifest.place}: {cluster_error(fault) or fault}") from None

    async def _apply(self, body: Json) -> None:
        kind = await self.creator.kind(body)
        metadata = body.get("metadata") or {}
        name = metadata.get("name")
        namespace = (metadata.get("namespace") or self.namespace) if kind.namespaced else None
        if not name or self.create_only:
            await self.changes.create(self.client, kind, namespace, body)
            return
        try:
            before: Json | None = await self.client.get(kind, namespace, name)
        except NotFound:
            before = None
        applied = await self.client.patch(
            kind, namespace, name, body, PatchType.APPLY, force=self.force_conflicts, options=self.changes.options
        )
        unchanged = before is not None and _desired(before) == _desired(applied)
        self.changes.report(kind, applied, "created" if before is None else "unchanged" if unchanged else "configured")


def _desired(body: Json) -> Json:
    """Return the object without what servers and controllers write."""
    metadata = {key: body["metadata"].get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers")}
    return {**{key: part for key, part in body.items() if key != "status"}, "metadata": metadata}
