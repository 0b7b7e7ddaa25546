"""Rights on existing objects: who may change what runs, and which fields only the controllers write.

What an object runs counts for the submitter that is recorded in it. So no other user changes it: jobs of a cron job, a job
template or a PodGroup would run on behalf of a user who does not know them. The PodGroups and pods of jobs and workloads are
written by the controllers.
"""

import re
from collections.abc import Iterable, Iterator

from volcanopy.admission.access import administers, is_trusted
from volcanopy.admission.context import Context
from volcanopy.admission.request import Request, User, at, is_job_owner, list_at, own_keys
from volcanopy.admission.submitter import belongs_to_job, is_kubelet, is_kubernetes, recorded
from volcanopy.api import names
from volcanopy.api.model import Json, Problem, forbidden

_ENDS_WITH_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""Names of the PodGroups of jobs and workloads, which do not start while another PodGroup has the name."""


def is_checked(user: User, context: Context) -> bool:
    """Return whether rights on existing objects depend on this user: not for controllers and superusers.

    If the configuration names no controllers, users cannot be distinguished from them.
    """
    names_controllers = bool(context.policy.controllers) and bool(user.name)
    return names_controllers and not is_trusted(user, context) and not is_kubernetes(user)


def binds_pods(user: User, context: Context) -> bool:
    """Return whether pods of this user may be created on a node: those of kubelets, and of whom no right depends on.

    Kubernetes' controllers create the pods that users have written into a Deployment.
    """
    return not is_checked(user, context) and (is_kubelet(user) or not is_kubernetes(user))


def has_job_label(request: Request, context: Context) -> bool:
    """Return whether a pod has the label of pods of jobs, which only trusted users set: such pods are not mutated."""
    labels = at(request.object, "metadata", "labels")
    names_controllers = bool(context.policy.controllers) and bool(request.user.name)
    return names_controllers and request.kind == "Pod" and isinstance(labels, dict) and names.JOB_NAME in labels


def change_problems(request: Request, context: Context, *path: str) -> Iterator[Problem]:
    """Yield a problem if the field is changed by a user that is neither the submitter nor an administrator of the queue.

    That is the queue before the change: administrators of another one move nothing of others to it.
    """
    owner = recorded(request.old)
    if request.operation != "UPDATE" or owner is None or not is_checked(request.user, context):
        return
    before = at(request.old, *path)
    queue = at(before, "queue") or at(before, "spec", "queue") or context.policy.default_queue
    if owner.name == request.user.name or administers(str(queue), request.user, context):
        return
    if at(request.object, *path) != before:
        detail = f'only its submitter "{owner.name}" may change it: create an object of your own'
        yield forbidden(".".join(path), detail)


def controlled_by(manifest: Json | None) -> str:
    """Return the kind of the controller of an object, empty if it has none."""
    for owner in list_at(manifest, "metadata", "ownerReferences"):
        if at(owner, "controller") is True or is_job_owner(owner):
            return str(at(owner, "kind") or "")
    return ""


def group_owner(name: str, owners: Iterable[tuple[str, str, str]]) -> str:
    """Return the kind of the job or workload whose PodGroup volcanopy's controllers write; empty if another client writes it.

    ``owners`` are the API version, kind and uid of the controllers of the PodGroup, and of its other owners that are jobs. The
    PodGroup of a workload has a name with its uid. Operators such as KubeRay write PodGroups for objects of their own.
    """
    for api_version, kind, uid in owners:
        if is_job_owner({"apiVersion": api_version, "kind": kind}) or name == names.workload_group(uid):
            return kind
    return ""


def group_owner_in(manifest: Json | None) -> str:
    """Return the kind of the job or workload whose PodGroup this is, if volcanopy's controllers write it."""
    triples = (
        (str(at(owner, "apiVersion")), str(at(owner, "kind") or ""), str(at(owner, "uid")))
        for owner in list_at(manifest, "metadata", "ownerReferences")
        if at(owner, "controller") is True or is_job_owner(owner)
    )
    return group_owner(str(at(manifest, "metadata", "name")), triples)


def job_owner_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if a user other than the controllers makes an object part of a job."""
    kind = controlled_by(request.object)
    owners = list_at(request.object, "metadata", "ownerReferences")
    if is_checked(request.user, context) and any(is_job_owner(owner) and at(owner, "kind") == kind for owner in owners):
        detail = f"only the controllers create a {request.kind} of a {kind}: remove the owner"
        yield forbidden("metadata.ownerReferences", detail)


def controlled_group_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem for each part of a job's or workload's PodGroup that a user other than the controllers changes."""
    if not is_checked(request.user, context):
        return
    owner = group_owner_in(request.old)
    if not owner:
        yield from job_owner_problems(request, context)
        if (kind := group_owner_in(request.object)) and not belongs_to_job(request):
            yield forbidden(
                "metadata.ownerReferences", f"only the controllers create the PodGroup of a {kind}: remove it"
            )
        elif request.operation == "CREATE" and _ENDS_WITH_UID.search(request.name):
            yield forbidden(
                "metadata.name", "only the controllers create a PodGroup whose name ends with a uid: change it"
            )
        return
    detail = f"immutable: the controllers write the PodGroup of a {owner}"
    for path in (("spec",), ("metadata", "ownerReferences")):
        if at(request.object, *path) != at(request.old, *path):
            yield forbidden(".".join(path), detail)
    for part in ("annotations", "labels"):
        before, after = (_own_values(at(version, "metadata", part)) for version in (request.old, request.object))
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield forbidden(f"metadata.{part}[{key}]", detail)


def controlled_key_problems(request: Request, context: Context, *keys: tuple[str, str]) -> Iterator[Problem]:
    """Yield the labels and annotations, given by part and key, that another user than the controllers sets or changes."""
    if is_trusted(request.user, context) or not (context.policy.controllers and request.user.name):
        return
    for part, key in keys:
        before, after = (at(version, "metadata", part, key) for version in (request.old, request.object))
        if before != after:
            verb = "remove it" if before is None else f'keep "{before}"'
            yield forbidden(f"metadata.{part}[{key}]", f"{part[:-1]} is set by the controllers: {verb}")


def _own_values(labels: object) -> Json:
    """Return labels or annotations with volcanopy's names, also of those that are written with the names of another API."""
    values = own_keys(labels) if isinstance(labels, dict) else {}
    return {key: value for key, value in values.items() if key.startswith(names.OWN_PREFIX)}


def deletion_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if the PodGroup of bound pods is deleted, also by superusers: they would count in no queue any more."""
    controllers = context.policy.controllers
    if not controllers or not request.user.name or request.user.name in controllers or is_kubernetes(request.user):
        return
    status = at(request.old, "status")
    running, started = at(status, "running"), at(status, "phase") == "Running"
    # A group without a minimum is Running without pods as well.
    started = started and at(request.old, "spec", "minMember") != 0
    if started or (isinstance(running, int) and running > 0):
        yield forbidden("", "pods of the PodGroup are running: delete the pods, or their owner, first")
