"""Objects made lighter before they are kept: what nobody reads here, and costs memory per object."""

from typing import Any, TypeVar

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model import pod_claims

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
T = TypeVar("T", bound=Any)


def slim(thing: T) -> T:
    """Any object without the copy of itself that kubectl leaves in it."""
    meta = _slim_meta(thing.metadata)
    return thing if meta is thing.metadata else replace(thing, metadata=meta)


def slim_pod(pod: core.Pod) -> core.Pod:
    """A pod without what became of its containers, and without volumes that bind it to no node."""
    status, meta, spec = pod.status, _slim_meta(pod.metadata), pod.spec
    if status.container_statuses or status.init_container_statuses:
        status = replace(status, container_statuses=(), init_container_statuses=())
    if spec.volumes and len(kept := pod_claims.kept(spec.volumes)) < len(spec.volumes):
        spec = replace(spec, volumes=kept)
    if status is pod.status and meta is pod.metadata and spec is pod.spec:
        return pod
    return replace(pod, metadata=meta, spec=spec, status=status)


def slim_node(node: core.Node) -> core.Node:
    """A node without its conditions."""
    return replace(node, metadata=_slim_meta(node.metadata), status=replace(node.status, conditions=()))


def _slim_meta(meta: core.Meta) -> core.Meta:
    if _LAST_APPLIED not in meta.annotations:
        return meta
    kept = {key: value for key, value in meta.annotations.items() if key != _LAST_APPLIED}
    return replace(meta, annotations=kept)
