"""Validation of Queues that are created, updated or deleted, in the tree of queues after the change.

The last part validates borrowing and lending limits, stop policies, and the annotations with path and
weights for hierarchical fairness.
"""

from collections.abc import Iterator, Mapping

import msgspec

from volcanopy.admission.access import administration_problems
from volcanopy.admission.children import MAX_RESOURCES
from volcanopy.admission.context import Context
from volcanopy.admission.limits import amount_problems, limit_problems
from volcanopy.admission.queue_tree import PATHS, Tree, amounts_of, amounts_of_queue, parent_of
from volcanopy.admission.request import Request, annotations, at, list_at, name_problems
from volcanopy.admission.response import as_warning
from volcanopy.api import names
from volcanopy.api.core import Queue as KnownQueue
from volcanopy.api.decoding import convert
from volcanopy.api.model import Json, Problem, forbidden, invalid, not_found, quoted, too_many
from volcanopy.api.quantity import counted, text
from volcanopy.api.queue_fields import unread_fields
from volcanopy.api.scheduling import Queue, QueueSpec, StopPolicy


def validate_queue(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of a queue that is created or updated."""
    manifest = request.object or {}
    if long_lists := list(_long_lists(manifest)):
        yield from long_lists
        return
    queue = request.read(Queue)
    existing = (context.queues or {}).get(queue.metadata.name)
    yield from name_problems(request, existing)
    invalid_amounts = list(_amounts(queue.spec))
    yield from invalid_amounts
    if not invalid_amounts:
        yield from _order(queue.spec)
    yield from limit_problems(queue.spec)
    yield from policy_problems(queue)
    yield from path_problems(request, context)
    if (plugins := context.policy.scheduler_plugins) is not None:
        fields = unread_fields(at(manifest, "spec") or {}, plugins)
        yield from (as_warning(Problem(f"spec.{name}", message)) for name, message in fields)
    after = known_queue(manifest)
    before = known_queue(request.old) if request.old is not None else existing  # in another API
    if queue.metadata.name == names.ROOT_QUEUE:
        yield from _root(queue, before, after, context)
    if context.queues is None or after is None:
        return
    yield from _permission(request, queue, before, context)
    position_problems = list(_position(queue.metadata.name, before, after, context))
    yield from position_problems
    if not invalid_amounts and not position_problems:
        yield from _excesses(before, after, context)
    if before is None or not same_claims(before, after):
        yield from map(as_warning, _impossible_guarantees(after, context))


def validate_queue_deletion(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the reasons why a queue cannot be deleted."""
    name = request.name
    yield from administration_problems(name, request.user, context, f'delete queue "{name}"')
    if name in {names.DEFAULT_QUEUE, names.ROOT_QUEUE, context.policy.default_queue}:
        yield forbidden("metadata.name", f'queue "{name}" is required by volcanopy and cannot be deleted')
        return
    if context.queues is None or not name:
        return
    if children := Tree(context.queues).children(name):
        yield forbidden("metadata.name", f'queue "{name}" has child queues: delete {quoted(children)} first')
    # Pods that run have an unfinished PodGroup. Without one, the status of the queue is not up to date.
    if context.pod_groups is None or context.unfinished.get(name):
        yield from _in_use(name, "metadata.name", "it cannot be deleted until they are finished", context)


def known_queue(manifest: Json | None) -> KnownQueue | None:
    """Return the read model of a queue, or None if it is not valid."""
    try:
        return convert(manifest, KnownQueue)
    except msgspec.ValidationError:
        return None


def changes_tree(request: Request) -> bool:
    """Return whether a request changes the tree of queues or the amounts that are summed over it."""
    if request.group != names.SCHEDULING or request.kind != "Queue" or not request.name:
        return False
    if request.operation != "UPDATE":
        return True
    before, after = known_queue(request.old), known_queue(request.object)
    return before is None or after is None or not same_claims(before, after)


def same_claims(before: KnownQueue, after: KnownQueue) -> bool:
    """Return whether two versions of a queue have the same parent and the same amounts."""
    return parent_of(before) == parent_of(after) and all(
        amounts_of_queue(before, field) == amounts_of_queue(after, field) for field in PATHS
    )


def _long_lists(manifest: Json) -> Iterator[Problem]:
    lists = [(path, at(manifest, *path.split("."))) for path in PATHS.values()]
    for number, entry in enumerate(list_at(manifest, "spec", "limits")):
        lists.append((f"spec.limits[{number}].resources", at(entry, "resources")))
    for path, resources in lists:
        if isinstance(resources, Mapping) and len(resources) > MAX_RESOURCES:
            yield too_many(path, len(resources), MAX_RESOURCES)


def _amounts(spec: QueueSpec) -> Iterator[Problem]:
    lists = (spec.capability, spec.deserved, spec.guarantee.resource if spec.guarantee else None)
    for path, resources in zip(PATHS.values(), lists, strict=True):
        yield from amount_problems(path, resources or {})


def _order(spec: QueueSpec) -> Iterator[Problem]:
    """Yield guarantees and deserved amounts that are greater than the capability, and guarantees above the deserved."""
    capability, deserved = amounts_of(spec.capability or {}), amounts_of(spec.deserved or {})
    for name, units in amounts_of(spec.guarantee.resource if spec.guarantee else {}).items():
        if units > capability.get(name, units):
            above = f"must not be greater than the capability ({text(name, capability[name])})"
            yield invalid(f"{PATHS['guarantee']}[{name}]", text(name, units), above)
        elif units > deserved.get(name, units):
            detail = f"must not be less than the guarantee ({text(name, units)})"
            yield invalid(f"spec.deserved[{name}]", text(name, deserved[name]), detail)
    for name, units in deserved.items():
        if name in capability and units > capability[name]:
            detail = f"must not be greater than the capability ({text(name, capability[name])})"
            yield invalid(f"spec.deserved[{name}]", text(name, units), detail)


def _impossible_guarantees(queue: KnownQueue, context: Context) -> Iterator[Problem]:
    """Yield guarantees that are greater than the cluster."""
    guarantee = amounts_of(queue.spec.guarantee.resource)
    for name, units in sorted(guarantee.items()) if context.cluster else ():
        if units > (most := context.cluster.get(name, 0)):
            detail = f"exceeds the cluster ({text(name, most)}): only what the queue requests is reserved"
            yield invalid(f"{PATHS['guarantee']}[{name}]", text(name, units), detail)


def _root(queue: Queue, before: KnownQueue | None, after: KnownQueue | None, context: Context) -> Iterator[Problem]:
    if queue.spec.parent not in {"", names.ROOT_QUEUE}:
        yield forbidden("spec.parent", "must not be set for the root queue")
    if before is None or after is None or not context.policy.protect_root:
        return
    for field, path in PATHS.items():
        if amounts_of_queue(after, field) != amounts_of_queue(before, field):
            yield forbidden(path, "immutable for the root queue: set protectRoot: false to change it")


def _permission(request: Request, queue: Queue, before: KnownQueue | None, context: Context) -> Iterator[Problem]:
    """Yield missing permissions in the tree before the change: a change cannot grant itself."""
    user, name = request.user, queue.metadata.name
    if before is not None:
        yield from administration_problems(name, user, context, f'change queue "{name}"')
    parent = queue.spec.parent or names.ROOT_QUEUE
    if name != names.ROOT_QUEUE and (before is None or parent != parent_of(before)):
        yield from administration_problems(parent, user, context, f'add a child to queue "{parent}"')


def _position(name: str, before: KnownQueue | None, after: KnownQueue, context: Context) -> Iterator[Problem]:
    """Yield the problems of a new position in the tree."""
    queues = context.queues or {}
    parent = after.spec.parent or names.ROOT_QUEUE
    moved = before is None or parent != parent_of(before)
    if not moved or names.ROOT_QUEUE in {name, parent}:
        return
    if parent == name:
        yield invalid("spec.parent", parent, "must not be the queue itself")
        return
    tree = Tree({**queues, name: after})
    if parent not in tree:
        yield not_found("spec.parent", "queue", parent, "create it first")
        return
    if path := tree.cycle(name):
        yield invalid("spec.parent", parent, f"must not create a cycle: {path}")
        return
    depth = 1 + sum(1 for _ in tree.above(name)) + max((distance for distance, _ in tree.below(name)), default=0)
    if depth > context.policy.max_queue_depth:
        path = " -> ".join([*reversed(list(tree.above(name))), name])
        detail = f"depth of the queue tree ({path}) must be at most {context.policy.max_queue_depth}, is {depth}"
        yield invalid("spec.parent", parent, detail)
    if tree.children(parent) == [name]:
        yield from _in_use(parent, "spec.parent", "only leaf queues can have jobs", context)


def _in_use(name: str, path: str, consequence: str, context: Context) -> Iterator[Problem]:
    """Yield a problem if the queue has pods or PodGroups."""
    queue = (context.queues or {}).get(name)
    pods = amounts_of(queue.status.allocated).get("pods", 0) if queue is not None else 0
    groups = context.unfinished.get(name, 0)
    if pods or groups:
        users = [counted(pods, "running pod")] * bool(pods) + [counted(groups, "unfinished PodGroup")] * bool(groups)
        yield forbidden(path, f'queue "{name}" has {" and ".join(users)}: {consequence}')


def _excesses(before: KnownQueue | None, after: KnownQueue, context: Context) -> Iterator[Problem]:
    """Yield the sums and limits that the change exceeds by more than before."""
    if before is not None and same_claims(before, after):
        return
    queues, name = context.queues or {}, after.metadata.name
    worse = Tree({**queues, name: after}).excesses(name)
    already = Tree({**queues, name: before}).excesses(name) if worse and before is not None else {}
    for key, (over, problem) in worse.items():
        if over > already.get(key, (0, None))[0]:
            yield problem


BORROWING, LENDING = "spec.borrowingLimit", "spec.lendingLimit"


def policy_problems(queue: Queue) -> Iterator[Problem]:
    """Yield values that are not valid or have no effect."""
    spec = queue.spec
    problems = [
        *amount_problems(BORROWING, spec.borrowing_limit or {}),
        *amount_problems(LENDING, spec.lending_limit or {}),
    ]
    yield from problems
    if queue.metadata.name == names.ROOT_QUEUE:
        yield from _root_policy(spec)
    elif not problems:
        yield from map(as_warning, _warnings(spec))


def _root_policy(spec: QueueSpec) -> Iterator[Problem]:
    if spec.stop_policy is not StopPolicy.NONE:
        detail = "the root queue must not be stopped: stop its child queues"
        yield invalid("spec.stopPolicy", spec.stop_policy.value, detail)
    for path, value in ((BORROWING, spec.borrowing_limit), (LENDING, spec.lending_limit)):
        if value:
            yield forbidden(path, "must not be set for the root queue")


def _warnings(spec: QueueSpec) -> Iterator[Problem]:
    deserved, capability = amounts_of(spec.deserved or {}), amounts_of(spec.capability or {})
    guarantee = amounts_of(spec.guarantee.resource if spec.guarantee else {})
    for name, units in amounts_of(spec.lending_limit or {}).items():
        path, value = f"{LENDING}[{name}]", text(name, units)
        if name not in deserved:
            detail = f"{name} is not in spec.deserved: the limit applies only to fair shares by weight"
            yield invalid(path, value, detail)
        elif units > deserved[name]:
            yield invalid(path, value, f"exceeds deserved ({text(name, deserved[name])}): all of it is lent")
        elif units > deserved[name] - guarantee.get(name, 0):
            lendable = text(name, deserved[name] - guarantee[name])
            detail = f"exceeds deserved minus guarantee ({lendable}): guaranteed resources are never lent"
            yield invalid(path, value, detail)
    for name, units in amounts_of(spec.borrowing_limit or {}).items():
        path, value = f"{BORROWING}[{name}]", text(name, units)
        total = deserved.get(name, 0) + units
        if name in deserved and name in capability and total > capability[name]:
            detail = f"deserved plus borrowing limit ({text(name, total)}) exceeds the capability"
            yield invalid(path, value, f"{detail} ({text(name, capability[name])}): the capability applies")
        elif name not in deserved:
            detail = (
                f"{name} is not in spec.deserved: the limit applies above the fair share by weight (0 without weights)"
            )
            yield invalid(path, value, detail)


def with_root(manifest: Json) -> Json:
    """Return the queue with a path that begins at the root, if both path and weights are set."""
    notes, metadata = annotations(manifest), at(manifest, "metadata")
    path, weights = notes.get(names.HIERARCHY, ""), notes.get(names.HIERARCHY_WEIGHTS, "")
    if not path or not weights or path.split("/")[0] == names.ROOT_QUEUE or not isinstance(metadata, dict):
        return manifest
    notes |= {names.HIERARCHY: f"{names.ROOT_QUEUE}/{path}", names.HIERARCHY_WEIGHTS: f"1/{weights}"}
    return {**manifest, "metadata": {**metadata, "annotations": notes}}


def path_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Yield the problems of the path and its weights."""
    notes = annotations(request.object)
    path, weights = notes.get(names.HIERARCHY, ""), notes.get(names.HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    steps, numbers = path.split("/") if path else [], weights.split("/") if weights else []
    path_key, weights_key = (f"metadata.annotations[{key}]" for key in (names.HIERARCHY, names.HIERARCHY_WEIGHTS))
    if len(steps) != len(numbers):
        detail = f'must have one weight for each element of path "{path}" ({len(steps)}), has {len(numbers)}'
        yield invalid(weights_key, weights, detail)
    for weight in numbers:
        if not _is_positive(weight):
            yield invalid(weights_key, weight, "weights must be numbers greater than 0")
    if not all(steps):
        yield invalid(path_key, path, "must not have empty elements, as in root/a/b")
        return
    for queue in sorted(context.queues or {}):
        existing = (context.queues or {})[queue].metadata.annotations.get(names.HIERARCHY, "")
        if queue != request.name and path and existing.startswith(f"{path}/"):
            yield invalid(path_key, path, f'must be a leaf of the hierarchy: queue "{queue}" has path "{existing}"')
            return


def _is_positive(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return 0 < number < float("inf")
