"""Queue of objects that name none: that of the namespace, of the submitter, or the default queue."""

from volcanopy.admission.access import matches
from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, User, annotations, at
from volcanopy.api import names
from volcanopy.api.model import Json


def assigned_queue(user: User, namespace: str, context: Context) -> str:
    """Return the queue of the namespace's annotation, else of the first matching placement, else the default queue."""
    known = (context.namespaces or {}).get(namespace)
    if known is not None and (queue := known.metadata.annotations.get(names.POD_QUEUE_NAME)):
        return queue
    for entry in context.policy.placement:
        if matches(entry, user, namespace):
            return entry.queue
    return context.policy.default_queue


def with_queue(request: Request, user: User, context: Context) -> Json | None:
    """Return the job or PodGroup with a queue; an update without a queue keeps the previous one."""
    manifest = request.object
    spec = at(manifest, "spec")
    if manifest is None or not isinstance(spec, dict) or spec.get("queue") not in (None, ""):
        return manifest
    before = at(request.old, "spec", "queue")
    if request.operation == "UPDATE":
        return {**manifest, "spec": {**spec, "queue": before}} if isinstance(before, str) and before else manifest
    return {**manifest, "spec": {**spec, "queue": assigned_queue(user, request.namespace, context)}}


def pod_with_queue(request: Request, user: User, context: Context) -> Json | None:
    """Return a pod without PodGroup with an annotation for its queue, unless that is the default queue."""
    manifest = request.object
    metadata = at(manifest, "metadata")
    if manifest is None or not isinstance(metadata, dict) or group_of(manifest):
        return manifest
    notes = annotations(manifest)
    if names.POD_QUEUE_NAME in notes:
        return manifest
    queue = assigned_queue(user, request.namespace, context)
    if queue == context.policy.default_queue:
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**notes, names.POD_QUEUE_NAME: queue}}}


def group_of(manifest: Json | None) -> str:
    """Return the name of the PodGroup in the annotations of a pod."""
    notes = annotations(manifest)
    return notes.get(names.GROUP_NAME) or notes.get(names.POD_GROUP_NAME) or ""
