"""Changes of a job's queue and the queues above it: limits, shares, stop policies, and queues that do not exist."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import gcd
from typing import Any

from volcanopy.api import core, names, quantity
from volcanopy.api.model import Json
from volcanopy.whatif.changes import Create, Edit, Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.remedies.candidate import Candidate, Part, Question, single
from volcanopy.whatif.target import edit_group, minimum_of, queue_of, requests_of

_DEPTH = 32
_OTHER_QUEUES = 6
"""The most other queues that a job is moved to."""
_MOST_WEIGHT = 4096
"""The most that a weight is raised by."""
_MEBIBYTE = 1 << 20


def chain(cluster: Cluster, name: str) -> list[core.Queue]:
    """Return a queue and its ancestors, as far as they exist."""
    queues: list[core.Queue] = []
    while name and len(queues) < _DEPTH:
        queue = cluster.state.queues.get(name)
        if queue is None or queue in queues:
            break
        queues.append(queue)
        name = queue.spec.parent or (names.ROOT_QUEUE if name != names.ROOT_QUEUE else "")
    return queues


def _chain(question: Question) -> list[core.Queue]:
    return chain(question.cluster, queue_of(question.cluster, question.target))


def capabilities(question: Question) -> Sequence[Candidate]:
    """Return a candidate that raises capability and borrowing limit of the queue and its ancestors."""
    return _amounts(question, "capability", ("capability", "borrowingLimit"))


def shares(question: Question) -> Sequence[Candidate]:
    """Return candidates that raise what the configured plugin computes the fair share from."""
    plugins = question.config.plugins
    candidates: list[Candidate] = []
    if "capacity" in plugins:
        candidates += _amounts(question, "deserved", ("deserved",), absent=True)
    if "proportion" in plugins or "drf" in plugins:
        parts = tuple(
            Part(_MOST_WEIGHT, partial(_heavier, queue.metadata.name), partial(_weight_text, queue))
            for queue in reversed(_chain(question))
            if queue.metadata.name != names.ROOT_QUEUE
        )
        candidates += [Candidate("weight", parts)] if parts else []
    if {"capacity", "proportion"} & plugins:
        candidates += _amounts(question, "guarantee", ("guarantee",), absent=True)
    return candidates


def _heavier(queue: str, more: int) -> Steps:
    return (Edit("Queue", queue, lambda body: _with(body, "weight", (body.get("spec") or {}).get("weight", 1) + more)),)


def _weight_text(queue: core.Queue, more: int) -> str:
    return f'raise the weight of queue "{queue.metadata.name}" from {queue.spec.weight} to {queue.spec.weight + more}'


def _amounts(question: Question, kind: str, fields: tuple[str, ...], *, absent: bool = False) -> list[Candidate]:
    """Return a candidate with a part for each queue of the chain, field and resource that the job requests.

    ``absent``: a queue without the field gets it.
    """
    cluster = question.cluster
    requested = total_request(question)
    parts: list[Part] = []
    for queue in reversed(_chain(question)):  # the queues above are left alone rather than the job's own
        if queue.metadata.name == names.ROOT_QUEUE:
            continue
        for field in fields:
            resources = sorted(requested.keys() if absent else requested.keys() & _listed(queue, field).keys())
            parts += [_amount(cluster, question, (queue.metadata.name, field, resource)) for resource in resources]
    return [Candidate(kind, tuple(parts))] if parts else []


def _listed(queue: core.Queue, field: str) -> core.Quantities:
    spec = queue.spec
    fields = {"capability": spec.capability, "deserved": spec.deserved, "borrowingLimit": spec.borrowing_limit}
    return spec.guarantee.resource if field == "guarantee" else fields[field]


def _amount(cluster: Cluster, question: Question, place: tuple[str, str, str]) -> Part:
    name, field, resource = place
    now = quantity.amount(resource, _listed(cluster.state.queues[name], field).get(resource, 0))
    beyond = 0 if field == "guarantee" else total_of(cluster, resource)
    raised = Raised(question, resource, now, total_request(question)[resource] + beyond)
    what = f'{field} of queue "{name}"'

    def text(value: str, more: str) -> str:
        return f"raise the {what} by {more} {resource} to {value}" if now else f"set the {what} to {value} {resource}"

    return raised.part("Queue", name, partial(_raised, field, resource), text)


def total_request(question: Question) -> dict[str, int]:
    """Return what all pods of the job request together; where pods are not known, what its pod group does."""
    total = quantity.summed(requests_of(question.cluster, question.target))
    group = question.cluster.group(question.target.group)
    if not total and group is not None and group.spec.min_resources:
        requests = {name: amount for name, amount in group.spec.min_resources.items() if "requests." not in name}
        total = quantity.amounts({name: amount for name, amount in requests.items() if "." not in name or "/" in name})
    return {name: units for name, units in total.items() if units and name != "pods"}


def step_of(question: Question, resource: str, *values: int) -> int:
    """Return the granularity in which amounts of a resource are searched: what divides requests and limits."""
    sizes = {request.get(resource, 0) for request in requests_of(question.cluster, question.target)}
    return gcd(*sizes, *values, total_request(question).get(resource, 0)) or 1


def grain_of(resource: str, units: int) -> int:
    """Return the smallest difference between two amounts that a remedy names: a thousandth of a cpu, 1Mi, or one piece."""
    is_bytes = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    return _MEBIBYTE if is_bytes and units >= _MEBIBYTE else 1


class Raised:
    """An amount that is raised by a number of grains, at least by one and by ``most`` units."""

    def __init__(self, question: Question, resource: str, now: int, most: int) -> None:
        self._resource, self._now, self._grain = resource, now, grain_of(resource, max(now, most))
        self._most = max(-(-most // self._grain), 1)
        self._stride = max(step_of(question, resource, now) // self._grain, 1)

    def part(self, kind: str, key: str, edited: Callable[[str, Json], Json], text: Callable[[str, str], str]) -> Part:
        """Return the part of which the strength is the number of grains.

        ``edited`` gets the quantity and the manifest of the object; ``text`` gets the amount, and by how much it is raised.
        """
        resource, now = self._resource, self._now

        def units(count: int) -> int:
            return now + count * self._grain

        def steps(count: int) -> Steps:
            return (Edit(kind, key, partial(edited, quantity.text(resource, units(count)))),)

        def sentence(count: int) -> str:
            return text(quantity.shown(resource, units(count)), quantity.shown(resource, units(count) - now))

        return Part(self._most, steps, sentence, self._stride)


def total_of(cluster: Cluster, resource: str) -> int:
    """Return the allocatable amount of all nodes."""
    state = cluster.state
    row = state.axis.index.get(resource)
    return 0 if row is None else int(state.nodes.amounts["allocatable"][row].sum())


def _raised(field: str, resource: str, value: str, body: Json) -> Json:
    spec = body.get("spec") or {}
    if field == "guarantee":
        resources = (spec.get("guarantee") or {}).get("resource") or {}
        return _with(body, "guarantee", {"resource": resources | {resource: value}})
    return _with(body, field, (spec.get(field) or {}) | {resource: value})


def _with(body: Json, field: str, value: Any) -> Json:
    return body | {"spec": (body.get("spec") or {}) | {field: value}}


# Limits of jobs, users and groups


def limits(question: Question) -> Sequence[Candidate]:
    """Return a candidate that raises limits on running jobs, and on resources of users and groups."""
    parts: list[Part] = []
    requested = total_request(question) | {"pods": minimum_of(question.cluster, question.target)}
    for queue in reversed(_chain(question)):
        name, now = queue.metadata.name, queue.spec.max_running_jobs
        if now is not None:
            parts.append(_jobs_limit(question, name, f'queue "{name}"', now, _with_most_jobs))
        for number, entry in enumerate(queue.spec.limits):
            parts += _entry_limits(question, (queue, number), entry, requested)
    return [Candidate("limits", tuple(parts))] if parts else []


def _jobs_limit(question: Question, queue: str, whose: str, now: int, edited: Callable[[int, Json], Json]) -> Part:
    """Return the part that raises a limit on running jobs; ``edited`` gets the new one and the queue."""
    return Part(
        len(question.cluster.keys.get("PodGroup", ())) + 1,
        lambda more: (Edit("Queue", queue, partial(edited, now + more)),),
        lambda more: f"raise maxRunningJobs of {whose} from {now} to {now + more}",
    )


def _with_most_jobs(most: int, body: Json) -> Json:
    return _with(body, "maxRunningJobs", most)


def _entry_limits(
    question: Question, place: tuple[core.Queue, int], entry: core.QueueLimit, requested: dict[str, int]
) -> Iterator[Part]:
    queue, number = place
    whose = f'{_subjects(entry)} in queue "{queue.metadata.name}"'
    if entry.max_running_jobs is not None:
        edited = partial(_entry, number, "maxRunningJobs")
        yield _jobs_limit(question, queue.metadata.name, whose, entry.max_running_jobs, edited)
    for resource in sorted(entry.resources.keys() & requested.keys()):
        yield _entry_resource(question, place, resource, whose, quantity.amount(resource, entry.resources[resource]))


def _entry_resource(question: Question, place: tuple[core.Queue, int], resource: str, whose: str, now: int) -> Part:
    queue, number = place
    most = total_request(question).get(resource, 0) + total_of(question.cluster, resource)
    before = quantity.shown(resource, now)
    return Raised(question, resource, now, most).part(
        "Queue",
        queue.metadata.name,
        partial(_entry, number, resource),
        lambda value, _: f"raise the limit of {whose} from {before} to {value} {resource}",
    )


def _entry(number: int, field: str, value: Any, body: Json) -> Json:
    entries = list(body["spec"]["limits"])
    entry = entries[number]
    if field == "maxRunningJobs":
        entries[number] = entry | {field: value}
    else:
        entries[number] = entry | {"resources": (entry.get("resources") or {}) | {field: value}}
    return _with(body, "limits", entries)


def _subjects(entry: core.QueueLimit) -> str:
    subjects = [f'user "{user}"' for user in entry.users] + [f'group "{group}"' for group in entry.groups]
    return ", ".join(subjects) or "all users"


# Stop policies and missing queues


def lifted_holds(question: Question) -> Sequence[Candidate]:
    """Return a candidate that opens and resumes the queue and its ancestors, and one that lets its jobs overtake."""
    parts: list[Part] = []
    fifo: list[Part] = []
    for queue in reversed(_chain(question)):
        name = queue.metadata.name
        if queue.spec.stop_policy != "None":
            parts.append(_edit(name, lambda body: _with(body, "stopPolicy", "None"), f'resume queue "{name}"'))
        if queue.status.state not in {"", "Open"}:
            parts.append(_edit(name, _opened, f'open queue "{name}"'))
        if queue.spec.dequeue_strategy == "fifo":
            text = f'set dequeueStrategy of queue "{name}" to traverse'
            fifo.append(_edit(name, lambda body: _with(body, "dequeueStrategy", "traverse"), text))
    return [Candidate(kind, tuple(steps)) for kind, steps in (("hold", parts), ("fifo", fifo)) if steps]


def _edit(name: str, change: Callable[[Json], Json], text: str) -> Part:
    return single((Edit("Queue", name, change),), text)


def _opened(body: Json) -> Json:
    return body | {"status": (body.get("status") or {}) | {"state": "Open"}}


def created_queues(question: Question) -> Sequence[Candidate]:
    """Return a candidate that creates the queue, or the ancestors of it, that do not exist."""
    cluster, name = question.cluster, queue_of(question.cluster, question.target)
    existing = chain(cluster, name)
    missing = name if not existing else existing[-1].spec.parent
    if not missing or missing in cluster.state.queues:
        return []
    return [Candidate("create", (single((Create(new_queue(missing)),), f'create queue "{missing}"'),))]


def new_queue(name: str) -> Json:
    """Return the manifest of a queue below the root queue."""
    return {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }


def other_queues(question: Question) -> Sequence[Candidate]:
    """Return candidates that submit the job to another queue, if its own takes no jobs."""
    return moves(question) if question.gate == "queue" else []


def moves(question: Question) -> Sequence[Candidate]:
    """Return candidates that submit the job to another queue: the children of its own first."""
    cluster, queue_name = question.cluster, queue_of(question.cluster, question.target)
    parents = {queue.spec.parent for queue in cluster.state.queues.values()} | {names.ROOT_QUEUE}
    leaves = [queue for queue in cluster.state.queues.values() if queue.metadata.name not in parents]
    leaves.sort(key=lambda queue: (queue.spec.parent != queue_name, queue.metadata.name))
    return [
        Candidate(
            "queue",
            (single(_moved(question, queue.metadata.name), f'submit the job to queue "{queue.metadata.name}"'),),
        )
        for queue in leaves[:_OTHER_QUEUES]
        if queue.metadata.name != queue_name
    ]


def _moved(question: Question, queue: str) -> Steps:
    def moved(spec: Json) -> Json:
        return spec | {"queue": queue}

    return edit_group(question.cluster, question.target, moved, moved)
