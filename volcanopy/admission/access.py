"""Access to queues: which queue an object is assigned, whether it accepts jobs, and who may submit to it or change it.

The submitters of a queue are its own or, if it has none, those of its nearest ancestor that has some. Administrators of a
queue are also administrators of its descendants, and may submit. If none is configured, every user may submit or change.
"""

from collections.abc import Iterator, Mapping

from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, User, annotations, at
from volcanopy.api import names
from volcanopy.api import subjects as subjects_of_api
from volcanopy.api.core import Meta, Queue, Subjects
from volcanopy.api.model import Json, Problem, forbidden, invalid, not_found, quoted
from volcanopy.api.scheduling import Subjects as SubjectsModel

_MAX_SHOWN = 8
_DEFAULT = Queue(metadata=Meta(name=names.DEFAULT_QUEUE))


def matches(subjects: Subjects | SubjectsModel, user: User, namespace: str) -> bool:
    """Return whether the user is one of the subjects; ``namespace`` is that of the object, empty if it has none."""
    return subjects_of_api.matches(subjects, user.name, user.groups, namespace)


def queue_of(name: str, queues: Mapping[str, Queue]) -> Queue | None:
    """Return the queue of this name; the default queue as the scheduler creates it at its start if it is missing."""
    return queues.get(name, _DEFAULT if name == names.DEFAULT_QUEUE else None)


def lineage(name: str, queues: Mapping[str, Queue]) -> list[Queue]:
    """Return the queue and its known ancestors up to the root; a cycle is followed once."""
    line: list[Queue] = []
    seen_names: set[str] = set()
    while name not in seen_names and (queue := queue_of(name, queues)) is not None:
        seen_names.add(name)
        line.append(queue)
        if name == names.ROOT_QUEUE:
            break
        name = queue.spec.parent or names.ROOT_QUEUE
    return line


def is_trusted(user: User, context: Context) -> bool:
    """Return whether this user may use and change every queue."""
    return matches(context.policy.superusers, user, "") or user.name in context.policy.controllers


def submission_problems(path: str, name: str, user: User, namespace: str, context: Context) -> Iterator[Problem]:
    """Yield a problem if this user may not submit to the queue."""
    if context.queues is None or not user.name or matches(context.policy.superusers, user, ""):
        return
    line = lineage(name, context.queues)
    restricting = next((queue for queue in line if queue.spec.submitters is not None), None)
    if restricting is None or restricting.spec.submitters is None:
        return
    if matches(restricting.spec.submitters, user, namespace):
        return
    if administers(name, user, context):
        return
    owner = restricting.metadata.name
    source = "" if owner == name else f' of its ancestor "{owner}"'
    yield forbidden(
        path,
        f'user "{user.name}" may not submit to queue "{name}" from namespace "{namespace}": '
        f"submitters{source} are {_listed(restricting.spec.submitters)}",
    )


def has_administrators(name: str, context: Context) -> bool:
    """Return whether the queue or an ancestor has administrators."""
    return any(queue.spec.administrators is not None for queue in lineage(name, context.queues or {}))


def administers(name: str, user: User, context: Context) -> bool:
    """Return whether this user is an administrator of the queue or of an ancestor."""
    return any(
        queue.spec.administrators is not None and matches(queue.spec.administrators, user, "")
        for queue in lineage(name, context.queues or {})
    )


def administration_problems(name: str, user: User, context: Context, action: str) -> Iterator[Problem]:
    """Yield a problem if this user may not do ``action`` with the queue or add queues below it."""
    if context.queues is None or not user.name or is_trusted(user, context):
        return
    administrators = [
        (queue.metadata.name, queue.spec.administrators)
        for queue in lineage(name, context.queues)
        if queue.spec.administrators is not None
    ]
    if not administrators or any(matches(subjects, user, "") for _, subjects in administrators):
        return
    entries_text = ", ".join(f'{_listed(subjects)} (queue "{queue}")' for queue, subjects in administrators)
    yield forbidden("", f'user "{user.name}" may not {action}: administrators are {entries_text}')


def _listed(subjects: Subjects) -> str:
    texts = [
        *(f'user "{name}"' for name in subjects.users),
        *(f'group "{name}"' for name in subjects.groups),
        *(f'service account "{name}"' for name in subjects.service_accounts),
        *(f'users of namespace "{name}"' for name in subjects.namespaces),
    ]
    if not texts:
        return "its administrators only"
    more = f" and {len(texts) - _MAX_SHOWN} more" if len(texts) > _MAX_SHOWN else ""
    return ", ".join(texts[:_MAX_SHOWN]) + more


def acceptance_problems(path: str, name: str, context: Context) -> Iterator[Problem]:
    """Yield the reasons why the queue accepts no jobs."""
    if context.queues is None:
        return
    if name == names.ROOT_QUEUE:
        yield invalid(path, name, "not a leaf queue: submit to a child queue")
        return
    queue = queue_of(name, context.queues)
    if queue is None:
        yield not_found(path, "queue", name, "create it or choose another queue")
        return
    if queue.status.state not in {"", "Open"}:
        yield invalid(path, name, f"queue is {queue.status.state}: submit to an open queue")
    if children := sorted(key for key, child in context.queues.items() if child.spec.parent == name):
        yield invalid(path, name, f"not a leaf queue: submit to a child queue ({quoted(children)})")


def assigned_queue(user: User, namespace: str, context: Context) -> str:
    """Return the queue that the namespace names, else of the first matching placement, else the default queue.

    A namespace names its queue with an annotation, else with one of the labels of the configuration.
    """
    home = (context.namespaces or {}).get(namespace)
    if home is not None:
        queue_name = home.metadata.annotations.get(names.POD_QUEUE_NAME) or _labelled(home.metadata.labels, context)
        if queue_name:
            return queue_name
    for entry in context.policy.placement:
        if matches(entry, user, namespace):
            return entry.queue
    return context.policy.default_queue


def _labelled(labels: Mapping[str, str], context: Context) -> str:
    """Return the queue that labels name: the first of the configured ones that is present; empty if there is none."""
    return next((labels[key] for key in context.policy.queue_labels if labels.get(key)), "")


def _queue_for(request: Request, user: User, context: Context) -> str:
    """Return the queue of an object that names none in its spec or annotations."""
    labels = at(request.object, "metadata", "labels")
    text_labels = (
        {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}
    )
    queue_name = _labelled(text_labels, context)
    return queue_name or assigned_queue(user, request.namespace, context)


def with_queue(request: Request, user: User, context: Context, unset: str = "") -> Json | None:
    """Return the job or PodGroup with a queue; an update without a queue keeps the previous one.

    The queue ``unset`` counts as no queue when the object is created.
    """
    manifest = request.object
    spec = at(manifest, "spec")
    if manifest is None or not isinstance(spec, dict):
        return manifest
    queue, updates = spec.get("queue"), request.operation == "UPDATE"
    if not (queue is None or queue == "" or (queue == unset and not updates)):
        return manifest
    before = at(request.old, "spec", "queue")
    if updates:
        return {**manifest, "spec": {**spec, "queue": before}} if isinstance(before, str) and before else manifest
    return {**manifest, "spec": {**spec, "queue": _queue_for(request, user, context)}}


def pod_with_queue(request: Request, user: User, context: Context) -> Json | None:
    """Return a pod with an annotation for its queue, unless that is the default queue.

    One of a PodGroup counts in the queue that it names when the PodGroup is gone, also by the garbage collector.
    """
    manifest = request.object
    metadata = at(manifest, "metadata")
    if manifest is None or not isinstance(metadata, dict):
        return manifest
    notes, group = annotations(manifest), group_of(manifest)
    if names.POD_QUEUE_NAME in notes:
        return manifest
    if group:
        pod_group = (context.pod_groups or {}).get(f"{request.namespace}/{group}")
        queue = pod_group.spec.queue if pod_group is not None else ""
    else:
        queue = _queue_for(request, user, context)
    if queue in {"", context.policy.default_queue}:
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**notes, names.POD_QUEUE_NAME: queue}}}


def group_of(manifest: Json | None) -> str:
    """Return the name of the PodGroup in the annotations of a pod."""
    notes = annotations(manifest)
    return notes.get(names.GROUP_NAME) or notes.get(names.POD_GROUP_NAME) or ""
