"""Objects of a new cluster: namespaces, service accounts, the system's priority classes."""

from embedded_apiserver.context import Context
from embedded_apiserver.crud.builtin_admission import CLASSES
from embedded_apiserver.kinds.builtin import SYSTEM_PRIORITIES
from embedded_apiserver.store.object_store import Body, Bucket, Event

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_DESCRIPTIONS = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but can be moved to another "
    "node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


def create_missing_objects(ctx: Context) -> None:
    """Create what is missing, and give every namespace its default service account from now on."""
    ctx.store.listeners.append(lambda bucket, event: _new_namespace(ctx, bucket, event))
    namespaces = ctx.store.bucket("namespaces")
    for name in NAMESPACES:
        if namespaces.get("", name) is None:
            body: Body = {"kind": "Namespace", "apiVersion": "v1", "metadata": _metadata(ctx, name)}
            body["metadata"]["labels"] = {"kubernetes.io/metadata.name": name}
            body |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            ctx.store.put(namespaces, body)
    classes = ctx.store.bucket(CLASSES)
    for name, value in SYSTEM_PRIORITIES.items():
        if classes.get("", name) is None:
            body = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": _metadata(ctx, name)}
            body["metadata"]["generation"] = 1
            body |= {"value": value, "description": _DESCRIPTIONS[name], "preemptionPolicy": "PreemptLowerPriority"}
            ctx.store.put(classes, body)


def _metadata(ctx: Context, name: str) -> Body:
    return {"name": name, "uid": ctx.fresh_uid(), "creationTimestamp": ctx.now()}


def _new_namespace(ctx: Context, bucket: Bucket, event: Event) -> None:
    if bucket.name != "namespaces" or event.type != "ADDED":
        return
    accounts = ctx.store.bucket("serviceaccounts")
    if accounts.get(event.entry.name, "default") is None:
        metadata = _metadata(ctx, "default") | {"namespace": event.entry.name}
        ctx.store.put(accounts, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata})
