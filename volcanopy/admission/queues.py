"""What is wrong with a Queue, with a change of it, or with deleting it: judged in the whole tree, with the change made."""

from collections.abc import Iterator, Mapping

import msgspec

from volcanopy.admission.access import administration_problems
from volcanopy.admission.context import Context, Edit
from volcanopy.admission.hierarchy_annotations import path_problems
from volcanopy.admission.queue_limits import amount_problems, limit_doubts, limit_problems, same_limits
from volcanopy.admission.queue_policy import term_problems
from volcanopy.admission.queue_tree import PATHS, Tree, amounts_of
from volcanopy.admission.request import Request, at
from volcanopy.admission.verdict import Warned
from volcanopy.api import names
from volcanopy.api.model import InvalidObjectError, Json, Problem
from volcanopy.api.quantity import text
from volcanopy.api.scheduling import Queue, QueueSpec
from volcanopy.api.scheduling_read import Queue as KnownQueue

LARGEST_LIST = 64


def queue_problems(request: Request, context: Context) -> Iterator[Problem | Warned]:
    """Everything that is wrong with a queue that is made or changed."""
    manifest = request.object or {}
    if wide := list(_too_long(manifest)):
        yield from wide
        return
    try:
        queue = Queue.read(manifest, unknown="forbid")
    except InvalidObjectError as error:
        yield from error.problems
        return
    wrong = list(_amounts(queue.spec))
    yield from wrong
    if not wrong:
        yield from _order(queue.spec)
    yield from limit_problems(queue.spec)
    yield from term_problems(queue)
    yield from path_problems(request, context)
    after = known(manifest)
    before = known(request.old) if request.old is not None else None
    if queue.metadata.name == names.ROOT_QUEUE:
        yield from _root(queue, before, after, context)
    if context.queues is None or after is None:
        return
    yield from _permission(request, queue, before, context)
    misplaced = list(_place(queue.metadata.name, before, after, context))
    yield from misplaced
    if not wrong and not misplaced:
        yield from _excesses(before, after, context)
    if before is None or not same_limits(before, after):
        yield from limit_doubts(queue.metadata.name, after, context)


def queue_deletion_problems(request: Request, context: Context) -> Iterator[Problem]:
    """Why a queue cannot be deleted."""
    name = request.name
    yield from administration_problems(name, request.user, context, doing=f"delete queue {name!r}")
    if name in {names.DEFAULT_QUEUE, names.ROOT_QUEUE, context.policy.default_queue}:
        yield Problem("metadata.name", f"the queue {name!r} cannot be deleted: the system needs it")
        return
    if context.queues is None or not name:
        return
    if children := Tree.of(context.queues, context.edits).children(name):
        yield Problem("metadata.name", f"queue {name!r} is divided into {', '.join(children)}: delete those first")
    yield from _use(name, "metadata.name", "it cannot be deleted until they are done", context)


def known(manifest: Json | None) -> KnownQueue | None:
    """The slice of a queue that the tree is made of; None if it cannot be read."""
    try:
        return msgspec.convert(manifest, KnownQueue)
    except msgspec.ValidationError:
        return None


def concerns_tree(request: Request) -> bool:
    """Whether this changes what the sums over the tree are made of."""
    if request.operation != "UPDATE":
        return True
    before, after = known(request.old), known(request.object)
    return before is None or after is None or not same_claims(before, after)


def same_claims(one: KnownQueue, other: KnownQueue) -> bool:
    """Whether two forms of a queue stand at the same place of the tree with the same amounts."""
    return _claims(one) == _claims(other)


def _claims(queue: KnownQueue) -> tuple[object, ...]:
    spec = queue.spec
    parts = (spec.capability, spec.deserved, spec.guarantee.resource)
    return (spec.parent or names.ROOT_QUEUE, *map(amounts_of, parts))


def _too_long(manifest: Json) -> Iterator[Problem]:
    for path in PATHS.values():
        found = at(manifest, *path.split("."))
        if isinstance(found, Mapping) and len(found) > LARGEST_LIST:
            yield Problem(path, f"names {len(found)} resources: {LARGEST_LIST} are allowed")
    entries = at(manifest, "spec", "limits")
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        found = at(entry, "resources")
        if isinstance(found, Mapping) and len(found) > LARGEST_LIST:
            path = f"spec.limits[{number}].resources"
            yield Problem(path, f"names {len(found)} resources: {LARGEST_LIST} are allowed")


def _amounts(spec: QueueSpec) -> Iterator[Problem]:
    lists = (spec.capability, spec.deserved, spec.guarantee.resource if spec.guarantee else None)
    for path, resources in zip((PATHS["capability"], PATHS["deserved"], PATHS["guarantee"]), lists, strict=True):
        yield from amount_problems(path, resources or {})


def _order(spec: QueueSpec) -> Iterator[Problem]:
    """The guarantee is part of what is deserved, and that of what the queue may hold."""
    capability, deserved = amounts_of(spec.capability or {}), amounts_of(spec.deserved or {})
    for name, units in amounts_of(spec.guarantee.resource if spec.guarantee else {}).items():
        if name not in deserved:
            told = (
                f"{text(name, units)} is guaranteed and nothing of it deserved: give deserved[{name}] at least as much"
            )
            yield Problem(f"spec.deserved[{name}]", told)
        elif units > deserved[name]:
            told = f"{text(name, deserved[name])} is less than the guarantee of {text(name, units)}"
            yield Problem(f"spec.deserved[{name}]", told)
    for name, units in deserved.items():
        if name in capability and units > capability[name]:
            told = f"{text(name, units)} is more than the capability of {text(name, capability[name])}"
            yield Problem(f"spec.deserved[{name}]", told)


def _root(queue: Queue, before: KnownQueue | None, after: KnownQueue | None, context: Context) -> Iterator[Problem]:
    if queue.spec.parent not in {"", names.ROOT_QUEUE}:
        yield Problem("spec.parent", "the root queue is part of no other: leave it out")
    if before is None or after is None or not context.policy.protect_root:
        return
    for what, now, then in (
        ("capability", after.spec.capability, before.spec.capability),
        ("deserved", after.spec.deserved, before.spec.deserved),
        ("guarantee", after.spec.guarantee.resource, before.spec.guarantee.resource),
    ):
        if amounts_of(now) != amounts_of(then):
            told = f"{what} of the root queue is fixed: it is the cluster (protectRoot: false in the admission configuration)"
            yield Problem(PATHS[what], told)


def _permission(request: Request, queue: Queue, before: KnownQueue | None, context: Context) -> Iterator[Problem]:
    """The permission is judged by what the tree says now: a change cannot grant itself."""
    user, name = request.user, queue.metadata.name
    if before is not None:
        yield from administration_problems(name, user, context, doing=f"change queue {name!r}")
    parent = queue.spec.parent or names.ROOT_QUEUE
    if name != names.ROOT_QUEUE and (before is None or parent != (before.spec.parent or names.ROOT_QUEUE)):
        yield from administration_problems(parent, user, context, doing=f"put a queue below {parent!r}")


def _place(name: str, before: KnownQueue | None, after: KnownQueue, context: Context) -> Iterator[Problem]:
    """What is wrong with where the queue stands, if it is put there now."""
    queues = context.queues or {}
    parent = after.spec.parent or names.ROOT_QUEUE
    moved = before is None or parent != (before.spec.parent or names.ROOT_QUEUE)
    if not moved or names.ROOT_QUEUE in {name, parent}:
        return
    if parent == name:
        yield Problem("spec.parent", "a queue cannot be its own parent")
        return
    for edit in context.edits:
        if edit.name != name and _moves(edit, queues):
            told = f"queue {edit.name!r} is being moved or deleted at this moment: try again in a minute"
            yield Problem("spec.parent", told)
            return
    tree = Tree.of(queues, context.edits, Edit(name, after))
    if parent not in tree:
        yield Problem("spec.parent", f"there is no queue {parent!r}: make it first")
        return
    if way := tree.circle(name):
        yield Problem("spec.parent", f"queues would be part of each other in a circle: {way}")
        return
    depth = 1 + sum(1 for _ in tree.above(name)) + max((far for far, _ in tree.below(name)), default=0)
    if depth > context.policy.max_queue_depth:
        way = " -> ".join([*reversed(list(tree.above(name))), name])
        told = f"the tree would be {depth} queues deep ({way}), at most {context.policy.max_queue_depth} is allowed"
        yield Problem("spec.parent", told)
    if tree.children(parent) == [name]:
        yield from _use(parent, "spec.parent", "a queue with queues below it takes no jobs", context)


def _moves(edit: Edit, queues: Mapping[str, KnownQueue]) -> bool:
    """Whether an edit that may be on its way moves or deletes a queue that there is."""
    found = queues.get(edit.name)
    if found is None:
        return False
    return edit.after is None or (edit.after.spec.parent or names.ROOT_QUEUE) != (found.spec.parent or names.ROOT_QUEUE)


def _use(name: str, path: str, because: str, context: Context) -> Iterator[Problem]:
    """Why the queue is not empty."""
    queue = (context.queues or {}).get(name)
    pods = amounts_of(queue.status.allocated).get("pods", 0) if queue is not None else 0
    groups = context.unfinished.get(name, 0)
    if pods or groups:
        found = [_counted(pods, "running pod")] * bool(pods) + [_counted(groups, "unfinished PodGroup")] * bool(groups)
        yield Problem(path, f"queue {name!r} has {' and '.join(found)}: {because}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _excesses(before: KnownQueue | None, after: KnownQueue, context: Context) -> Iterator[Problem]:
    """The sums and limits that the change breaks. What was broken before and becomes no worse may be mended in steps."""
    if before is not None and same_claims(before, after):
        return
    queues, name = context.queues or {}, after.metadata.name
    worse = Tree.of(queues, context.edits, Edit(name, after)).excesses(name)
    if not worse:
        return
    then = Tree.of(queues, context.edits, Edit(name, before) if before is not None else None)
    already = then.excesses(name) if before is not None else {}
    for key, (over, problem) in worse.items():
        if over > already.get(key, (0, None))[0]:
            yield problem
