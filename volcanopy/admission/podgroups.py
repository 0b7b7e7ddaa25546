"""Validation of PodGroups (queue, minimum resources, topology, sub-groups), and of pods that belong to no job."""

from collections.abc import Iterator

from volcanopy.admission.access import entry_problems, group_of, is_trusted, submission_problems
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import extreme_problems, group_findings, pod_findings, pod_request
from volcanopy.admission.jobs import budget_problems, pod_warnings
from volcanopy.admission.limits import MAX_RESOURCES, limit_findings, quantity_problems, queued_problems
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.request import Request, annotations, at
from volcanopy.admission.response import AdmissionWarning
from volcanopy.admission.submitter import belongs_to_job, recorded, submitter
from volcanopy.api import names
from volcanopy.api.model import Problem, duplicate, forbidden, invalid, too_many
from volcanopy.api.quantity import GROUP_LIMIT
from volcanopy.api.scheduling import NetworkTopology, PodGroup, PodGroupSpec


def validate_pod_group(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a PodGroup that is created or updated."""
    resources = at(request.object, "spec", "minResources")
    if isinstance(resources, dict) and len(resources) > MAX_RESOURCES:
        yield too_many("spec.minResources", len(resources), MAX_RESOURCES)
        return
    group = request.read(PodGroup)
    spec = group.spec
    needs = amounts_of(spec.min_resources or {})
    yield from quantity_problems("spec.minResources", spec.min_resources or {})
    yield from extreme_problems("spec.minResources", needs, GROUP_LIMIT)
    yield from _topologies(spec)
    yield from map(AdmissionWarning, _warnings(spec))
    before = at(request.old, "spec", "queue") or names.DEFAULT_QUEUE
    moved = request.operation == "UPDATE" and before != spec.queue
    if moved and _of_a_job(request) and not is_trusted(request.user, context):
        yield forbidden("spec.queue", "immutable: the queue of the PodGroup of a job is that of the job")
        return
    if _is_controlled(request, context):
        if moved or (request.operation == "CREATE" and not _of_a_job(request)):
            # The queue comes from annotations of pods and workloads, which any user may have written.
            yield from _recorded_submission_problems(request, spec.queue, context)
        return
    if request.operation == "UPDATE" and not moved:
        return
    user = submitter(request, context.policy)
    yield from entry_problems("spec.queue", spec.queue, user, request.namespace, context)
    if request.operation == "CREATE":
        yield from queued_problems("spec.queue", spec.queue, user, context)
    yield from group_findings("spec.queue", spec.queue, needs, context)
    yield from limit_findings("spec.queue", spec.queue, needs, user, context)


def _is_controlled(request: Request, context: Context) -> bool:
    """Return whether the group was created for an admitted object; it may be created again in a closed queue."""
    if context.policy.controllers:
        return request.user.name in context.policy.controllers
    return belongs_to_job(request)


def _of_a_job(request: Request) -> bool:
    """Return whether the group belongs to a BatchJob, or did before the update."""
    return belongs_to_job(request) or belongs_to_job(request.with_object(request.old or {}))


def _recorded_submission_problems(request: Request, queue: str, context: Context) -> Iterator[Problem]:
    """Yield a problem if the user that is recorded in the group may not submit to the queue."""
    user = recorded(request.old) or recorded(request.object)
    if user is not None:
        yield from submission_problems("spec.queue", queue, user, request.namespace, context)


def validate_pod_update(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if another queue or PodGroup is chosen for a pod than when it was created.

    The controllers assign PodGroups. If the configuration does not name them, a first PodGroup may be named by users that may
    submit to its queue.
    """
    if not is_scheduled_here(request, context) or is_trusted(request.user, context) or not request.user.name:
        return
    before, after = annotations(request.old), annotations(request.object)
    for key in (names.POD_QUEUE_NAME, names.GROUP_NAME, names.POD_GROUP_NAME):
        path = f"metadata.annotations[{key}]"
        if after.get(key) == before.get(key):
            continue
        if key == names.POD_QUEUE_NAME or key in before or context.policy.controllers:
            yield forbidden(path, "immutable: the queue and the PodGroup of a pod are chosen when it is created")
        elif group := (context.pod_groups or {}).get(f"{request.namespace}/{after[key]}"):
            yield from submission_problems(path, group.spec.queue, request.user, request.namespace, context)


def _topologies(spec: PodGroupSpec) -> Iterator[Problem]:
    yield from _topology(spec.network_topology, "spec.networkTopology")
    seen: set[str] = set()
    for number, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{number}]"
        yield from _topology(policy.network_topology, f"{path}.networkTopology")
        if policy.name and policy.name in seen:
            yield duplicate(f"{path}.name", policy.name)
        seen.add(policy.name)
        for position, key in enumerate(policy.match_label_keys):
            if key in policy.match_label_keys[:position]:
                yield duplicate(f"{path}.matchLabelKeys[{position}]", key)


def _topology(topology: NetworkTopology | None, path: str) -> Iterator[Problem]:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        detail = "highestTierAllowed and highestTierName are mutually exclusive: remove one of them"
        yield Problem(path, f"Invalid value: {detail}")


def _warnings(spec: PodGroupSpec) -> Iterator[Problem]:
    if spec.min_member == 0:
        yield invalid("spec.minMember", 0, "pods of the group are scheduled one by one")
    total = sum(spec.min_task_member.values())
    if spec.min_member and total > spec.min_member:
        detail = f"sum is greater than minMember ({spec.min_member}): minTaskMember is ignored"
        yield invalid("spec.minTaskMember", total, detail)
    for number, policy in enumerate(spec.sub_group_policy):
        pods = policy.sub_group_size * policy.min_sub_groups
        if spec.min_member and pods > spec.min_member:
            detail = f"{pods} pods in {policy.min_sub_groups} sub-groups are more than minMember ({spec.min_member})"
            yield invalid(f"spec.subGroupPolicy[{number}].minSubGroups", policy.min_sub_groups, detail)


def is_scheduled_here(request: Request, context: Context) -> bool:
    """Return whether the pod names one of volcanopy's schedulers."""
    return at(request.object, "spec", "schedulerName") in context.policy.scheduler_names


def validate_pod(request: Request, context: Context) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of a pod that is created. The API server validates the pod itself."""
    if not is_scheduled_here(request, context):
        return
    notes, spec = annotations(request.object), at(request.object, "spec")
    yield from budget_problems(notes)
    yield from extreme_problems("spec", pod_request(spec))
    path, queue = f"metadata.annotations[{names.POD_QUEUE_NAME}]", notes.get(names.POD_QUEUE_NAME, "")
    if group := group_of(request.object):
        pod_group = (context.pod_groups or {}).get(f"{request.namespace}/{group}")
        if pod_group is None:
            return
        path, queue = f"metadata.annotations[{names.GROUP_NAME}]", pod_group.spec.queue
    name = queue or context.policy.default_queue
    yield from entry_problems(path, name, submitter(request, context.policy), request.namespace, context)
    yield from map(AdmissionWarning, pod_warnings(spec, "spec", context))
    yield from pod_findings(spec, context)
