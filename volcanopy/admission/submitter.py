"""Submitter of an object: recorded in annotations when the object is created, immutable afterwards.

Volcanopy's controllers copy the submitter of a flow or cron job to its jobs, and are trusted. The submitter of pods created by
Kubernetes' controllers (for a Deployment, a Job) is the service account of the pods. If the configuration names no
controllers, the submitter recorded in a PodGroup that is owned by a BatchJob is trusted.
"""

import json
from collections.abc import Mapping

from volcanopy.admission.context import AdmissionPolicy
from volcanopy.admission.request import Request, User, account_user, annotations, at, is_job_owner
from volcanopy.api import names
from volcanopy.api.model import Json, Problem, forbidden

KEYS = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)
_KUBELETS = "system:node:"
_KUBERNETES = ("system:serviceaccount:kube-system:", "system:kube-controller-manager", _KUBELETS)


def submitter(request: Request, policy: AdmissionPolicy) -> User:
    """Return the submitter of the object in the request."""
    unnamed = not policy.controllers and request.kind == "PodGroup" and belongs_to_job(request)
    if request.user.name in policy.controllers or unnamed:
        return recorded(request.object) or request.user
    if request.kind == "Pod" and is_kubernetes(request.user):
        account = at(request.object, "spec", "serviceAccountName")
        return account_user(request.namespace, account if isinstance(account, str) and account else "default")
    return request.user


def is_kubernetes(user: User) -> bool:
    """Return whether the user is one of Kubernetes' own controllers or a kubelet."""
    return user.name.startswith(_KUBERNETES)


def is_kubelet(user: User) -> bool:
    """Return whether the user is a kubelet."""
    return user.name.startswith(_KUBELETS)


def belongs_to_job(request: Request) -> bool:
    """Return whether the object is owned by a BatchJob."""
    owners = at(request.object, "metadata", "ownerReferences")
    return isinstance(owners, list) and any(map(is_job_owner, owners))


def template_author(manifest: Json | None) -> User | None:
    """Return the submitter of the JobTemplate that a job of a flow was made from, as the flow controller recorded it."""
    notes = annotations(manifest)
    user = submitter_in(
        {
            names.SUBMITTED_BY: notes.get(names.TEMPLATE_SUBMITTED_BY, ""),
            names.SUBMITTER_GROUPS: notes.get(names.TEMPLATE_SUBMITTER_GROUPS, "[]"),
        }
    )
    return user if user.name else None


def recorded(manifest: Json | None) -> User | None:
    """Return the submitter recorded in an object, if there is one."""
    user = submitter_in(annotations(manifest))
    return user if user.name else None


def submitter_in(notes: Mapping[str, str]) -> User:
    """Return the submitter in annotations; without a name if there is none."""
    try:
        groups = json.loads(notes.get(names.SUBMITTER_GROUPS, "[]"))
    except (ValueError, RecursionError):
        groups = []
    return User(
        notes.get(names.SUBMITTED_BY, ""),
        tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else (),
    )


def _written(user: User) -> dict[str, str]:
    return {names.SUBMITTED_BY: user.name, names.SUBMITTER_GROUPS: json.dumps(list(user.groups), ensure_ascii=False)}


def with_submitter(request: Request, policy: AdmissionPolicy) -> Json | None:
    """Return the object with its submitter; an update without the annotations keeps the previous ones."""
    manifest = request.object
    metadata = at(manifest, "metadata")
    if manifest is None or not isinstance(metadata, dict) or not request.user.name:
        return manifest
    notes = metadata.get("annotations")
    if notes is not None and not isinstance(notes, dict):
        return manifest
    notes = notes or {}
    if request.operation == "UPDATE":
        before = annotations(request.old)
        recorded_notes = {key: before[key] for key in KEYS if key in before and key not in notes}
    else:
        recorded_notes = _written(submitter(request, policy))
    if all(notes.get(key) == value for key, value in recorded_notes.items()):
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**notes, **recorded_notes}}}


def submitter_problems(request: Request, policy: AdmissionPolicy) -> list[Problem]:
    """Return a problem for each annotation that does not record the submitter, or was changed."""
    if not request.user.name or request.user.name in policy.controllers:
        return []
    notes = annotations(request.object)
    if request.operation == "UPDATE":
        before = annotations(request.old)
        expected = {key: before[key] for key in KEYS if key in before}
        detail = "annotation is immutable"
    else:
        expected = _written(submitter(request, policy))
        detail = "annotation is set by admission"
    return [
        forbidden(f"metadata.annotations[{key}]", f"{detail}: {_fix(expected.get(key))}")
        for key in KEYS
        if notes.get(key) != expected.get(key)
    ]


def _fix(expected: str | None) -> str:
    return "remove it" if expected is None else f"keep {expected!r}"
