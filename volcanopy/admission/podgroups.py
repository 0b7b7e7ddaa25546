"""What is wrong with a PodGroup: its queue, its network topology, its sub-groups."""

from collections.abc import Iterator

from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import group_fits
from volcanopy.admission.queue_acceptance import entry_problems
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.queues import LARGEST_LIST
from volcanopy.admission.request import Request, at
from volcanopy.admission.submitter import of_a_job, submitter
from volcanopy.admission.user_limits import allowance, queued_problems
from volcanopy.admission.verdict import Warned
from volcanopy.api import names
from volcanopy.api.model import InvalidObjectError, Problem
from volcanopy.api.quantity import QuantityError, amount
from volcanopy.api.scheduling import NetworkTopology, PodGroup, PodGroupSpec


def group_problems(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """Everything that is wrong with a PodGroup that is made or changed."""
    resources = at(request.object, "spec", "minResources")
    if isinstance(resources, dict) and len(resources) > LARGEST_LIST:
        yield Problem("spec.minResources", f"names {len(resources)} resources: {LARGEST_LIST} are allowed")
        return
    try:
        group = PodGroup.read(request.object or {}, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    spec = group.spec
    yield from _resources(spec)
    yield from _topologies(spec)
    yield from _doubts(spec)
    before = at(request.old, "spec", "queue") or names.DEFAULT_QUEUE
    if _is_ours(request, context) or (request.operation == "UPDATE" and before == spec.queue):
        return
    user = submitter(request, context.policy)
    yield from entry_problems("spec.queue", spec.queue, user, request.namespace, context, what="PodGroups")
    if request.operation == "CREATE":
        yield from queued_problems("spec.queue", spec.queue, user, context)
    needs = amounts_of(spec.min_resources or {})
    for found in (
        group_fits("spec.minResources", spec.queue, needs, context),
        allowance("spec.minResources", spec.queue, needs, user, context),
    ):
        yield from found.problems
        yield from map(Warned, found.warnings)


def _is_ours(request: Request, context: Context) -> bool:
    """Whether the group belongs to something that was judged itself, and may be made again in a closed queue."""
    if context.policy.controllers:
        return request.user.name in context.policy.controllers
    return of_a_job(request)


def _resources(spec: PodGroupSpec) -> Iterator[Problem]:
    for name, said in (spec.min_resources or {}).items():
        try:
            negative = amount(name, said) < 0
        except QuantityError as error:
            yield Problem(f"spec.minResources[{name}]", str(error))
        else:
            if negative:
                yield Problem(f"spec.minResources[{name}]", f"{said} is negative")


def _topologies(spec: PodGroupSpec) -> Iterator[Problem]:
    yield from _topology(spec.network_topology, "spec.networkTopology")
    seen: set[str] = set()
    for number, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{number}]"
        yield from _topology(policy.network_topology, f"{path}.networkTopology")
        if policy.name and policy.name in seen:
            yield Problem(f"{path}.name", f"there is more than one division {policy.name!r}")
        seen.add(policy.name)
        for position, key in enumerate(policy.match_label_keys):
            if key in policy.match_label_keys[:position]:
                yield Problem(f"{path}.matchLabelKeys[{position}]", f"{key!r} is there already")


def _topology(topology: NetworkTopology | None, path: str) -> Iterator[Problem]:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        told = "the highest tier is given by number or by name: leave out highestTierAllowed or highestTierName"
        yield Problem(path, told)


def _doubts(spec: PodGroupSpec) -> Iterator[Warned]:
    if spec.min_member == 0:
        yield Warned(Problem("spec.minMember", "0: the pods of the group are started one by one"))
    total = sum(spec.min_task_member.values())
    if spec.min_member and total > spec.min_member:
        told = f"{total} pods are demanded by tasks, minMember is {spec.min_member}: the demands of tasks do not hold"
        yield Warned(Problem("spec.minTaskMember", told))
    for number, policy in enumerate(spec.sub_group_policy):
        need = policy.sub_group_size * policy.min_sub_groups
        if spec.min_member and need > spec.min_member:
            path = f"spec.subGroupPolicy[{number}].minSubGroups"
            told = (
                f"{policy.min_sub_groups} groups of {policy.sub_group_size} are more than minMember {spec.min_member}"
            )
            yield Warned(Problem(path, told))
