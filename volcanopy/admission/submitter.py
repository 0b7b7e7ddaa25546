"""Who asked for an object: written into it when it is made, and not to be changed.

Our controllers make jobs for whoever made the flow or cron job: they hand the name on, and are believed. Pods that
Kubernetes' own controllers make (for a Deployment, a Job) count as asked for by the service account that they run as: who
made the Deployment is not known then. Where nobody has said who our controllers are, a PodGroup that says that it belongs
to a job of ours is believed to, and so is whom it names.
"""

import json
from collections.abc import Mapping

from volcanopy.admission.policy import AdmissionPolicy
from volcanopy.admission.request import Request, User, account_user, annotations, at
from volcanopy.api import names
from volcanopy.api.model import Json, Problem

KEYS = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)
_KUBERNETES = ("system:serviceaccount:kube-system:", "system:kube-controller-manager", "system:node:")


def submitter(request: Request, policy: AdmissionPolicy) -> User:
    """Who asks for the object, for whomever's sake the request is made."""
    unnamed = not policy.controllers and request.kind == "PodGroup" and of_a_job(request)
    if request.user.name in policy.controllers or unnamed:
        return recorded(request.object) or request.user
    if request.kind == "Pod" and request.user.name.startswith(_KUBERNETES):
        account = at(request.object, "spec", "serviceAccountName")
        return account_user(request.namespace, account if isinstance(account, str) and account else "default")
    return request.user


def of_a_job(request: Request) -> bool:
    """Whether the object says that it belongs to a BatchJob, which was judged itself."""
    owners = at(request.object, "metadata", "ownerReferences")
    return isinstance(owners, list) and any(
        at(one, "kind") == "BatchJob" and str(at(one, "apiVersion")).startswith(f"{names.BATCH}/") for one in owners
    )


def recorded(manifest: Json | None) -> User | None:
    """Who an object says asked for it; None if it does not say."""
    user = named_in(annotations(manifest))
    return user if user.name else None


def named_in(said: Mapping[str, str]) -> User:
    """The user whom annotations say; one without a name if they say none."""
    try:
        groups = json.loads(said.get(names.SUBMITTER_GROUPS, "[]"))
    except (ValueError, RecursionError):
        groups = []
    return User(
        said.get(names.SUBMITTED_BY, ""),
        tuple(one for one in groups if isinstance(one, str)) if isinstance(groups, list) else (),
    )


def _written(user: User) -> dict[str, str]:
    return {names.SUBMITTED_BY: user.name, names.SUBMITTER_GROUPS: json.dumps(list(user.groups), ensure_ascii=False)}


def stamped(request: Request, policy: AdmissionPolicy) -> Json | None:
    """The object with who asked for it. What was there is written over; in a change that leaves it out it comes back."""
    manifest = request.object
    metadata = at(manifest, "metadata")
    if manifest is None or not isinstance(metadata, dict) or not request.user.name:
        return manifest
    found = metadata.get("annotations")
    if found is not None and not isinstance(found, dict):
        return manifest
    found = found or {}
    if request.operation == "UPDATE":
        before = annotations(request.old)
        wanted = {key: before[key] for key in KEYS if key in before and key not in found}
    else:
        wanted = _written(submitter(request, policy))
    if all(found.get(key) == value for key, value in wanted.items()):
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**found, **wanted}}}


def origin_problems(request: Request, policy: AdmissionPolicy) -> list[Problem]:
    """What is forged: a name that is not that of who asked, or one that was changed later."""
    if not request.user.name or request.user.name in policy.controllers:
        return []
    said = annotations(request.object)
    if request.operation == "UPDATE":
        before = annotations(request.old)
        right = {key: before[key] for key in KEYS if key in before}
        told = "says who asked for this and cannot be changed: "
    else:
        right = _written(submitter(request, policy))
        told = "is written by admission alone: "
    problems = []
    for key in KEYS:
        if said.get(key) != right.get(key):
            fix = f"leave it at {right[key]!r}" if key in right else "leave it out"
            problems.append(Problem(f"metadata.annotations[{key}]", told + fix))
    return problems
