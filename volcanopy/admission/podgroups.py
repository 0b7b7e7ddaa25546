"""Validation of PodGroups (queue, minimum resources, topology, sub-groups), and of pods that belong to no job."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from volcanopy.admission.access import group_of, is_trusted, lineage, submission_problems
from volcanopy.admission.children import MAX_RESOURCES, quantity_problems
from volcanopy.admission.context import Context
from volcanopy.admission.entry import QueueEntry, amount_findings, entry_problems
from volcanopy.admission.feasibility import extreme_problems, pod_findings, pod_request
from volcanopy.admission.jobs import BOUND, budget_problems, pod_warnings, reference_problems
from volcanopy.admission.limits import LimitEntries
from volcanopy.admission.ownership import (
    binds_pods,
    change_problems,
    controlled_by,
    controlled_group_problems,
    controlled_key_problems,
    group_owner,
    group_owner_in,
    is_checked,
    job_owner_problems,
)
from volcanopy.admission.powers import moved_problems, power_problems, protection_problems
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import (
    Request,
    User,
    annotations,
    at,
    is_job_owner,
    is_shared_by_accounts,
    keys_of_other_schedulers,
    list_at,
    name_problems,
)
from volcanopy.admission.response import as_warning
from volcanopy.admission.submitter import belongs_to_job, recorded, submitter, submitter_in
from volcanopy.api import names
from volcanopy.api.core import PodGroup as PodGroupRead
from volcanopy.api.model import Problem, duplicate, forbidden, invalid, not_found, too_many
from volcanopy.api.quantity import GROUP_LIMIT
from volcanopy.api.scheduling import NetworkTopology, PodGroup, PodGroupPhase, PodGroupSpec


def validate_pod_group(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a PodGroup that is created or updated."""
    resources = at(request.object, "spec", "minResources")
    if isinstance(resources, dict) and len(resources) > MAX_RESOURCES:
        yield too_many("spec.minResources", len(resources), MAX_RESOURCES)
        return
    group = request.read(PodGroup)
    yield from name_problems(request, (context.pod_groups or {}).get(f"{request.namespace}/{request.name}"))
    spec = group.spec
    if spec.priority_class_name != at(request.old, "spec", "priorityClassName"):
        yield from reference_problems("spec.priorityClassName", spec.priority_class_name)
    needs = amounts_of(spec.min_resources or {})
    yield from quantity_problems("spec.minResources", spec.min_resources or {})
    yield from extreme_problems("spec.minResources", needs, GROUP_LIMIT)
    for name, minimum in spec.min_task_member.items():
        if minimum < 0:
            yield invalid(f"spec.minTaskMember[{name}]", minimum, "must be greater than or equal to 0")
    yield from _topologies(spec)
    yield from map(as_warning, _warnings(spec))
    before = at(request.old, "spec", "queue") or names.DEFAULT_QUEUE
    moved = is_moved(request)
    if moved and _of_a_job(request) and not is_trusted(request.user, context):
        yield forbidden("spec.queue", "immutable: the queue of the PodGroup of a job is that of the job")
        return
    yield from controlled_group_problems(request, context)
    yield from change_problems(request, context, "spec")
    # They would forge the history of a job.
    keys = names.LEARNT_ESTIMATE, names.PODS_CREATED, names.PODS_REJECTED
    yield from controlled_key_problems(request, context, *(("annotations", key) for key in keys))
    if not group_owner_in(request.object):
        before_move = None if moved else request.old
        yield from protection_problems(request.object, before_move, request.user, spec.queue, context)
    if request.operation == "CREATE" and _is_controlled(request, context):
        if not _of_a_job(request):
            # The queue comes from annotations of pods and workloads, which any user may have written.
            yield from _recorded_submission_problems(request, spec.queue, context)
        return
    controlled = _is_controlled(request, context)
    user = (recorded(request.old) or User()) if controlled else submitter(request, context.policy)
    if request.operation == "UPDATE" and not moved:
        if spec.min_resources != at(request.old, "spec", "minResources") and not controlled:
            yield from amount_findings("spec.queue", spec.queue, needs, user, context)
        return
    entry = QueueEntry("spec.queue", spec.queue, user, request.namespace, needs)
    if moved:
        counted_user = recorded(request.old) or user
        entry = replace(entry, origin=before, is_admitted=_is_admitted(request), counted_for=counted_user)
        yield from moved_problems(context.moved_pods, counted_user, spec.queue, context)
    yield from entry_problems(entry, context)


def _is_admitted(request: Request) -> bool:
    """Return whether the scheduler has admitted the group, or pods of it run."""
    status = at(request.old, "status")
    return at(status, "phase") not in {None, "", PodGroupPhase.PENDING} or bool(at(status, "running"))


def is_moved(request: Request) -> bool:
    """Return whether the request moves a PodGroup to another queue."""
    if request.key != (names.SCHEDULING, "PodGroup", "UPDATE"):
        return False
    before, after = ((at(version, "spec", "queue") or names.DEFAULT_QUEUE) for version in (request.old, request.object))
    return bool(before != after)


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
    """Yield a problem if a pod gets another queue or PodGroup than at its creation, more resources, a protection, or an owner.

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
    yield from _origin_problems(request, context)
    queue, _ = _queue_of(request, context)
    yield from power_problems(request.object, request.old, request.user, queue, context)
    yield from _growth_problems(request, queue, context)


def _queue_of(request: Request, context: Context) -> tuple[str, PodGroupRead | None]:
    """Return the queue of the pod, and the PodGroup that it names if that is known."""
    notes, group = annotations(request.object), group_of(request.object)
    pod_group = (context.pod_groups or {}).get(f"{request.namespace}/{group}") if group else None
    queue = pod_group.spec.queue if pod_group is not None else notes.get(names.POD_QUEUE_NAME)
    return queue or context.policy.default_queue, pod_group


def _growth_problems(request: Request, queue: str, context: Context) -> Iterator[Problem]:
    """Yield the resources of which an admitted pod requests more than before, in a queue that limits them.

    The limits are checked when a pod is bound, not when a kubelet resizes it.
    """
    before, after = pod_request(at(request.old, "spec")), pod_request(at(request.object, "spec"))
    grown = {name for name, units in after.items() if units > before.get(name, 0)}
    if not grown:
        return
    user = recorded(request.old) or request.user
    for ancestor in lineage(queue, context.queues or {}):
        entries = [entry for _, entry in LimitEntries(ancestor).of(user)]
        limited: Amounts = amounts_of(ancestor.spec.capability)
        for entry in entries:
            limited |= amounts_of(entry.resources)
        if names_of := sorted(grown & set(limited)):
            detail = f'queue "{ancestor.metadata.name}" limits {", ".join(names_of)}: create a new pod'
            yield forbidden("spec", f"requests of a pod cannot be increased after its creation: {detail}")
            return


def _topologies(spec: PodGroupSpec) -> Iterator[Problem]:
    yield from _topology(spec.network_topology, "spec.networkTopology")
    seen_names: set[str] = set()
    for number, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{number}]"
        yield from _topology(policy.network_topology, f"{path}.networkTopology")
        if policy.name and policy.name in seen_names:
            yield duplicate(f"{path}.name", policy.name)
        seen_names.add(policy.name)
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


def validate_pod(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a pod that is created. The API server validates the pod itself."""
    if not is_scheduled_here(request, context):
        return
    notes, spec = annotations(request.object), at(request.object, "spec")
    user = submitter(request, context.policy)
    yield from budget_problems(notes)
    yield from extreme_problems("spec", pod_request(spec))
    yield from _origin_problems(request, context)
    yield from map(as_warning, _ignored_keys(notes, at(spec, "schedulerName"), context))
    if at(spec, "nodeName") and not binds_pods(request.user, context):
        yield forbidden("spec.nodeName", BOUND)
    path, (queue, group) = f"metadata.annotations[{names.POD_QUEUE_NAME}]", _queue_of(request, context)
    if name := group_of(request.object):
        queue_name = notes.get(names.POD_QUEUE_NAME)
        if queue_name and (group is None or queue_name != queue):  # it counts there without its PodGroup
            yield from submission_problems(path, queue_name, user, request.namespace, context)
        path = f"metadata.annotations[{names.GROUP_NAME}]"
        yield from _group_problems(path, name, group, request, context)
        if group is None:
            return
    pod_group = group or _workload_group(request, context)
    if is_checked(request.user, context) or not _is_admitted_group(pod_group):
        needs = {} if group is not None else pod_request(spec)
        entry = QueueEntry(path, queue, user, request.namespace, needs, is_waiting=pod_group is None)
        yield from entry_problems(entry, context)
    else:  # the pods of an admitted job go on in a closed queue
        yield from submission_problems(path, queue, user, request.namespace, context)
    yield from power_problems(request.object, None, user, queue, context)
    yield from map(as_warning, pod_warnings(spec, "spec", context))
    yield from pod_findings(spec, context)


def _ignored_keys(notes: Mapping[str, str], scheduler: str, context: Context) -> Iterator[Problem]:
    """Yield the annotations of another API, which count with the name of its scheduler only."""
    for key, own_key, api_scheduler in keys_of_other_schedulers(notes, scheduler):
        is_served = api_scheduler in context.policy.scheduler_names
        remedy = f"use {own_key}" + (f', or schedulerName "{api_scheduler}"' if is_served else "")
        yield Problem(f"metadata.annotations[{key}]", f'no effect with schedulerName "{scheduler}": {remedy}')


def _workload_group(request: Request, context: Context) -> PodGroupRead | None:
    """Return the PodGroup that the controllers have created for the controller of the pod."""
    owners = list_at(request.object, "metadata", "ownerReferences")
    uids = [at(owner, "uid") for owner in owners if at(owner, "controller")]
    keys = [f"{request.namespace}/{names.workload_group(uid)}" for uid in uids if isinstance(uid, str)]
    return next((group for key in keys if (group := (context.pod_groups or {}).get(key))), None)


def _is_admitted_group(group: PodGroupRead | None) -> bool:
    return group is not None and group.status.phase not in {"", "Pending"}


def _origin_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield a problem if the pod passes for a pod of a job, as pods of workloads could as well, or of another user's workload."""
    before, after = (at(version, "metadata", "ownerReferences") for version in (request.old, request.object))
    if before != after:
        yield from job_owner_problems(request, context)
        group = _workload_group(request, context) if is_checked(request.user, context) else None
        owner = "" if group is None else submitter_in(group.metadata.annotations).name
        if owner not in {"", request.user.name}:
            detail = f'its pods belong to user "{owner}": remove the owner'
            yield forbidden("metadata.ownerReferences", detail)
    # The queue counts where the PodGroup of the job is gone.
    owner = controlled_by(request.old) if request.operation == "UPDATE" else ""
    keys = ("labels", names.QUEUE_NAME), ("annotations", names.QUEUE_NAME)
    yield from controlled_key_problems(request, context, ("labels", names.JOB_NAME), *(keys if owner else ()))


def _group_problems(
    path: str, name: str, group: PodGroupRead | None, request: Request, context: Context
) -> Iterator[Problem]:
    """Yield a problem if the pod may not join the PodGroup: it would count for the submitter of the group."""
    if context.pod_groups is None or not (context.policy.controllers and request.user.name):
        return
    if is_trusted(request.user, context):
        return
    checked = is_checked(request.user, context)
    if group is None:
        if checked:  # controllers of workloads create pods before their operator creates the group
            yield not_found(path, "PodGroup", name, "create it before its pods")
    elif _written_for_workload(group):
        yield forbidden(path, f'PodGroup "{name}" belongs to a workload: create one of your own')
    elif checked and not _is_shared(group, request):  # Kubernetes' controllers create the pods of workloads
        owner = submitter_in(group.metadata.annotations).name
        if owner not in {"", request.user.name}:
            yield forbidden(path, f'PodGroup "{name}" belongs to user "{owner}": create one of your own')


def _is_shared(group: PodGroupRead, request: Request) -> bool:
    """Return whether the user is a service account of the namespace, and the API lets such accounts join."""
    account = request.user.account
    return is_shared_by_accounts(group.api_version) and account is not None and account[0] == request.namespace


def _written_for_workload(group: PodGroupRead) -> bool:
    """Return whether volcanopy's controllers have created the group for a job or workload."""
    owners = (
        (owner.api_version, owner.kind, owner.uid)
        for owner in group.metadata.owner_references
        if owner.controller or is_job_owner({"apiVersion": owner.api_version, "kind": owner.kind})
    )
    return bool(group_owner(group.metadata.name, owners))
