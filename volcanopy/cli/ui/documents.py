"""The documents behind the pages, as JSON: from the objects of a cluster, without a clock or a client."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from volcanopy.api import names, quantity
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.core import Node, PodGroup, Queue
from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError
from volcanopy.cli.framework.tables import Column
from volcanopy.cli.jobs.views import VIEW, group_key
from volcanopy.cli.queues import tree
from volcanopy.cli.ui.cluster_view import ClusterView, job_name
from volcanopy.cli.ui.gpu_cards import used_parts
from volcanopy.client.durations import span
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.hierarchy import state
from volcanopy.client.jobs import status as job_status
from volcanopy.scheduler.model.topology import TOP, forest

MINUTES = 30
"""Minutes of decisions on the overview."""
PAGE = 100
"""Jobs on one page of the table."""
_HIDDEN = frozenset({"pods", "ephemeral-storage"})
_FIRST = ("cpu", "memory")
_GPU = "gpu"


def overview(view: ClusterView, now: datetime) -> Json:
    """Return the use of the cluster by resource, the queues, the waiting jobs by gate, and what needs attention."""
    nodes = view.nodes
    totals = _totals(view, nodes)
    return {
        "revision": view.revision,
        "unknown": view.unknown,
        "resources": [
            {"name": name, "allocatable": totals[name][0], "allocated": totals[name][1], **_texts(name, *totals[name])}
            for name in ordered(totals)
        ],
        "nodes": len(nodes),
        "pods": view.pod_count,
        "jobs": dict(Counter(job_status.shown_phase(job) for _, job in view.jobs)),
        "waiting": _waiting(view.groups.values()),
        "queues": queues(view, "", history=False),
        "decisions": view.decisions.per_minute(now, MINUTES),
        "alerts": alerts(view),
    }


def alerts(view: ClusterView) -> list[Json]:
    """Return what needs attention: nodes that are not ready, queues that are closed."""
    entries: list[Json] = []
    down = [node.metadata.name for node in view.nodes if not is_ready(node)]
    if down:
        more = f" and {len(down) - 5} more" if len(down) > 5 else ""
        entries.append({"severity": "warning", "message": f"not ready: {', '.join(down[:5])}{more}"})
    closed = sorted(queue.metadata.name for queue in view.queues if state(queue) != "Open")
    if closed:
        entries.append({"severity": "info", "message": f"queues that accept no jobs: {', '.join(closed)}"})
    return entries


def _waiting(groups: Iterable[PodGroup]) -> list[Json]:
    """Return the number of waiting pod groups by the gate that blocks them, with one job and its message as an example."""
    counts: Counter[str] = Counter()
    examples: dict[str, Json] = {}
    for group in groups:
        reason = group.status.explanation
        if reason is not None and reason.gate:
            counts[reason.gate] += 1
            examples.setdefault(reason.gate, {"job": job_name(group), "message": reason.message})
    return [{"gate": gate, "count": count, "example": examples[gate]} for gate, count in counts.most_common()]


def _totals(view: ClusterView, nodes: Sequence[Node]) -> dict[str, list[int]]:
    totals: dict[str, list[int]] = {}
    for node in nodes:
        for name, amount in _allocatable(node).items():
            totals.setdefault(name, [0, 0])[0] += amount
        for name, amount in view.usage.allocated(node.metadata.name).items():
            if name in totals:
                totals[name][1] += amount
    return totals


def _texts(name: str, allocatable: int, allocated: int) -> Json:
    return {"allocatableText": quantity.shown(name, allocatable), "allocatedText": quantity.shown(name, allocated)}


def ordered(resources: Iterable[str]) -> list[str]:
    """Return the resources worth showing: cpu and memory, then the others by name."""
    shown = sorted(set(resources) - _HIDDEN)
    return [name for name in _FIRST if name in shown] + [name for name in shown if name not in _FIRST]


def _allocatable(node: Node) -> dict[str, int]:
    try:
        return quantity.amounts(node.status.allocatable)
    except QuantityError:
        return {}


def is_ready(node: Node) -> bool:
    """Whether the node's condition Ready is not false; a node without conditions counts as ready."""
    return not any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions)


def queues(view: ClusterView, resource: str, *, history: bool = True) -> Json:
    """Return the tree of queues with the amounts of one resource (the scarcest if none is named), now and over time."""
    all_queues = view.queues
    resources = tree.resources_of(all_queues) or set(_FIRST)
    chosen = resource if resource in resources else tree.select_resource(all_queues) if all_queues else "cpu"
    return {
        "revision": view.revision,
        "unknown": view.unknown,
        "resources": ordered(resources),
        "resource": chosen,
        "tree": tree.document(all_queues),
        "history": view.samples.document(chosen) if history else None,
        "amounts": {queue.metadata.name: _queue_amounts(tree.amounts_of(queue, chosen)) for queue in all_queues},
    }


def _queue_amounts(amounts: tree.Amounts) -> Json:
    return {
        "allocated": amounts.allocated,
        "fairShare": amounts.fair_share,
        "capability": amounts.capability,
        "waiting": amounts.waiting,
    }


def jobs(view: ClusterView, query: Mapping[str, str], now: datetime) -> Json:
    """Return one page of the table of jobs: the columns of ``job list -o wide``, filtered and sorted.

    ``query`` has ``text`` (in namespace or name), ``queue``, ``phase``, ``sort`` (a heading, with ``-`` before it for
    descending order) and ``page``, from 1. ``apis`` has the API of each row.
    """
    all_jobs, groups = view.jobs, view.groups
    form = VIEW.table(wide=True, namespaces=True, others=groups)
    columns = [*form.columns, *_COLUMNS]
    chosen = [entry for entry in all_jobs if _matches(entry[1], query)]
    chosen.sort(key=lambda entry: (entry[1].metadata.key, entry[0]))
    sort = query.get("sort", "")
    column = next((candidate for candidate in columns if candidate.heading == sort.removeprefix("-")), None)
    if not sort:
        chosen.sort(key=lambda entry: _place(entry[1], groups))
    if column is not None:
        key = _age_key if column.heading == "AGE" else lambda job: _natural(column.cell(job, now))
        chosen.sort(key=lambda entry: key(entry[1]), reverse=sort.startswith("-"))
    pages = max(-(-len(chosen) // PAGE), 1)
    page = _page(query.get("page", ""), pages)
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    return {
        "revision": view.revision,
        "unknown": view.unknown,
        "headings": [column.heading for column in columns],
        "rows": [
            [*cells, *(column.cell(job, now) for column in _COLUMNS)]
            for cells, (_, job) in zip(form.cells([job for _, job in shown], now), shown, strict=True)
        ],
        "progress": [_progress(job) for _, job in shown],
        "keys": [job.metadata.key for _, job in shown],
        "apis": [api for api, _ in shown],
        "total": len(chosen),
        "all": len(all_jobs),
        "page": page,
        "pages": pages,
        "queues": sorted({job_status.queue(job) for _, job in all_jobs}),
        "phases": sorted({job_status.shown_phase(job) for _, job in all_jobs}),
    }


def _page(text: str, pages: int) -> int:
    """Return the number of a page that exists: the first for a text that is no number, the last for one beyond it."""
    if not text.isdecimal():
        return 1
    return max(1, min(int(text), pages)) if len(text) <= len(str(pages)) else pages


def _place(job: BatchJob, groups: Mapping[str, PodGroup]) -> tuple[int, int, float]:
    """Return the key of the order of the table: jobs that wait by their position, those that run, the last that ended."""
    age = _age_key(job)
    if job_status.phase(job) in job_status.FINISHED:
        return 2, 0, age
    if job_status.phase(job) == "Running" and not job_status.reason(job):
        return 1, 0, age
    group = groups.get(group_key(job))
    position = job_status.position(group) if group is not None else "-"
    return 0, int(position) if position.isdecimal() else 0, -age


def _progress(job: BatchJob) -> list[int]:
    """Return the numbers of succeeded, running, failed and all pods."""
    state = job.status
    return [state.succeeded, state.running, state.failed, job_status.total(job)]


def _run_time(job: BatchJob, now: datetime) -> str:
    """Return for how long a job has run, or ran; empty before."""
    begin = job.status.start_time
    if begin is None:
        return ""
    ends = [condition.last_transition_time for condition in job.status.conditions[-1:]]
    end = ends[0] if ends and job_status.phase(job) in job_status.FINISHED else None
    return span(((end or now) - begin).total_seconds())


def _user(job: BatchJob, _: datetime) -> str:
    return job.metadata.annotations.get(names.SUBMITTED_BY, "")


_COLUMNS = (Column("RUN TIME", _run_time), Column("USER", _user))
"""Columns of the page besides those of ``job list -o wide``."""


def queue_page(view: ClusterView, name: str, resource: str, now: datetime) -> Json:
    """Return a queue with its limits, its jobs that wait and run in their order, and its users. Raises CommandError."""
    queue = next((queue for queue in view.queues if queue.metadata.name == name), None)
    if queue is None:
        raise CommandError(f'queue "{name}" not found')
    open_jobs = [
        job
        for _, job in view.jobs
        if job_status.queue(job) == name and job_status.phase(job) not in job_status.FINISHED
    ]
    users: dict[str, list[int]] = {}
    groups = view.groups
    for job in open_jobs:
        counts = users.setdefault(_user(job, now) or "unknown", [0, 0, 0])
        counts[0 if _place(job, groups)[0] == 0 else 1] += 1
        counts[2] += job.status.running
    document = queues(view, resource)
    return {
        **{key: document[key] for key in ("revision", "unknown", "resources", "resource", "history")},
        "queue": name,
        "parent": queue.spec.parent,
        "state": state(queue),
        "weight": queue.spec.weight,
        "limits": [
            {
                "resource": unit,
                **{
                    kind: quantity.shown(unit, amounts[unit]) if unit in amounts else ""
                    for kind, amounts in _limits(queue).items()
                },
            }
            for unit in document["resources"]
        ],
        "amounts": document["amounts"][name],
        "where": f" in namespace {view.namespace}" if view.namespace else "",
        "users": [[user, *counts] for user, counts in sorted(users.items())],
        "jobs": jobs(view, {"queue": name}, now),
    }


def _limits(queue: Queue) -> dict[str, dict[str, int]]:
    texts = {
        "allocated": queue.status.allocated,
        "fairShare": queue.status.fair_share,
        "waiting": queue.status.waiting,
        "capability": queue.spec.capability,
        "guarantee": queue.spec.guarantee.resource,
    }
    try:
        return {kind: quantity.amounts(amounts) for kind, amounts in texts.items()}
    except QuantityError:
        return {kind: {} for kind in texts}


def _matches(job: BatchJob, query: Mapping[str, str]) -> bool:
    text, queue, phase = query.get("text", ""), query.get("queue", ""), query.get("phase", "")
    return (
        text.lower() in job.metadata.key.lower()
        and (not queue or job_status.queue(job) == queue)
        and (not phase or job_status.shown_phase(job) == phase)
    )


def _age_key(job: BatchJob) -> float:
    created = job.metadata.creation_timestamp
    return -created.timestamp() if created is not None else 0.0


def _natural(text: str) -> tuple[int, float, str]:
    """Return a key that sorts numbers by value, before texts."""
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text


def cluster_map(view: ClusterView) -> Json:
    """Return the nodes with what each job uses of them, in the order of racks and names; amounts in base units.

    A node is ``[name, rack, state, allocatable, uses, cards]``; a use ``[job, reserved, amounts]``, with amounts in the order
    of ``resources`` and ``job`` an index of ``jobs``; a card is a shared GPU: a list of ``[job, part of its memory]``.
    """
    nodes = view.nodes
    allocatable = [_allocatable(node) for node in nodes]
    resources = ordered({name for amounts in allocatable for name in amounts})
    table = forest(view.hyper_nodes, nodes)
    racks = [table.names[row].removeprefix(TOP) for row in table.of_node.tolist()]
    numbers: dict[str, int] = {}
    queue_of = {job.metadata.key: job_status.queue(job) for _, job in view.jobs}
    entries: list[list[Any]] = []
    for node, amounts, rack in zip(nodes, allocatable, racks, strict=True):
        uses = [
            [
                numbers.setdefault(use.job, len(numbers)),
                int(use.reserved),
                [use.amounts.get(name, 0) for name in resources],
            ]
            for use in view.usage.of(node.metadata.name)
        ]
        node_state = "not ready" if not is_ready(node) else "cordoned" if node.spec.unschedulable else ""
        cards = [
            [[numbers.setdefault(job, len(numbers)), part] for job, part in parts]
            for parts in used_parts(node, view.usage)
        ]
        shown = [amounts.get(name, 0) for name in resources]
        entries.append([node.metadata.name, rack, node_state, shown, uses, cards])
    entries.sort(key=lambda entry: (entry[1], entry[0]))
    return {
        "revision": view.revision,
        "unknown": view.unknown,
        "resources": resources,
        "gpus": [name for name in resources if name.endswith(_GPU)],
        "jobs": list(numbers),
        "queues": [queue_of.get(job, "") for job in numbers],
        "nodes": entries,
    }


def decisions(view: ClusterView, now: datetime) -> Json:
    """Return the newest decisions, and how many there were in each of the last minutes."""
    return {
        "revision": view.revision,
        "perMinute": view.decisions.per_minute(now, MINUTES),
        "decisions": view.decisions.documents(300),
    }
