"""Which queue an object lands in that names none: its namespace's, its submitter's, or the default one."""

from volcanopy.admission.access import matches
from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, User, annotations, at
from volcanopy.api import names
from volcanopy.api.model import Json


def landing(user: User, namespace: str, context: Context) -> str:
    """The queue: the namespace's annotation, then the first entry of the configuration that fits, then the default."""
    known = (context.namespaces or {}).get(namespace)
    if known is not None and (said := known.metadata.annotations.get(names.POD_QUEUE_NAME)):
        return said
    for entry in context.policy.placement:
        if matches(entry, user, namespace):
            return entry.queue
    return context.policy.default_queue


def placed(request: Request, user: User, context: Context) -> Json | None:
    """The job or PodGroup with a queue; a change that leaves the queue out leaves it as it was."""
    manifest = request.object
    spec = at(manifest, "spec")
    if manifest is None or not isinstance(spec, dict) or spec.get("queue") not in (None, ""):
        return manifest
    before = at(request.old, "spec", "queue")
    if request.operation == "UPDATE":
        return {**manifest, "spec": {**spec, "queue": before}} if isinstance(before, str) and before else manifest
    return {**manifest, "spec": {**spec, "queue": landing(user, request.namespace, context)}}


def pod_placed(request: Request, user: User, context: Context) -> Json | None:
    """A pod that is in no PodGroup yet, with the queue that its PodGroup will get, unless that is the default one."""
    manifest = request.object
    metadata = at(manifest, "metadata")
    if manifest is None or not isinstance(metadata, dict) or group_of(manifest):
        return manifest
    said = annotations(manifest)
    if names.POD_QUEUE_NAME in said:
        return manifest
    queue = landing(user, request.namespace, context)
    if queue == context.policy.default_queue:
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**said, names.POD_QUEUE_NAME: queue}}}


def group_of(manifest: Json | None) -> str:
    """The PodGroup that a pod says it is in."""
    said = annotations(manifest)
    return said.get(names.GROUP_NAME) or said.get(names.POD_GROUP_NAME) or ""
