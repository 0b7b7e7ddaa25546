"""Changes of the job itself, and other jobs that end."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from volcanopy.api import names, quantity
from volcanopy.api.builtin import policy
from volcanopy.api.gates import Gate
from volcanopy.api.model import Json
from volcanopy.jobcontroller.job_podgroup import pod_usage
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE
from volcanopy.whatif.changes import Delete, Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.controllers import read_job
from volcanopy.whatif.remedies.candidate import Candidate, Part, Question, single
from volcanopy.whatif.remedies.nodes import node_kinds
from volcanopy.whatif.remedies.queues import Raised, grain_of, step_of, total_request
from volcanopy.whatif.target import (
    Target,
    edit_job,
    edit_pods,
    foreign_scheduler,
    is_suspended,
    jobs_and_pods,
    minimum_of,
    pod_specs,
    queue_of,
    requests_of,
    with_minimum,
    with_requests_up_to,
    with_spec,
)

_OWN = NONE - 1
"""In place of the row of the job that ends."""
_NEVER = np.iinfo(np.int64).max // 4
"""The missing amount of a node that takes no pods."""


def freeing_order(cluster: Cluster, target: Target) -> dict[str, int]:
    """Return ranks of jobs by the keys of their pod groups, and of pods without a job by their own keys.

    1. The tasks of each node are summed by job. What counts is the resource of which a node lacks the greatest part.
    2. On each node the jobs that free most end first, until the largest pod of the waiting job fits.
    3. Nodes on which the fewest jobs have to end come first; nodes on which the pod does not fit even then are left out.

    The order is only a proposal: the engine confirms how many of the jobs have to end.
    """
    state, tasks = cluster.state, cluster.state.tasks.plain
    requests = [state.axis.vector(request) for request in requests_of(cluster, target)]
    rows, owners, names = _owners(cluster)
    if not requests or not np.max(requests) or not len(rows):
        return {}
    nodes = tasks["node"][rows]
    scarcest, missing = _missing(cluster, np.max(requests, axis=0))
    amounts = np.array([state.axis.vector(shape.request) for shape in state.shapes.all])
    order = _order(nodes, owners, amounts[tasks["shape"][rows], scarcest[nodes]], missing)
    return {names[owner]: rank for rank, owner in enumerate(order)}


def _owners(cluster: Cluster) -> tuple[Rows, Rows, list[str]]:
    """Return the tasks on nodes, the number of the job of each, and the keys of the jobs in order; a pod without is its own."""
    state, tasks = cluster.state, cluster.state.tasks.plain
    rows = np.flatnonzero(ON_NODE[tasks["status"]] & (tasks["node"] != NONE))
    jobs = tasks["job"][rows]
    distinct, owners = np.unique(np.where(jobs == NONE, ~rows, jobs), return_inverse=True)
    keys = [str(state.jobs.keys[row] if row >= 0 else state.tasks.keys[~row]) for row in distinct.tolist()]
    return rows, np.argsort(np.argsort(keys))[owners], sorted(keys)


def _missing(cluster: Cluster, request: Ints) -> tuple[Ints, Ints]:
    """Return for each node the resource of which the greatest part of a request is missing, and how much of it is."""
    count_due(cluster.state)
    nodes, resources = cluster.state.nodes, np.flatnonzero(request)
    missing = request[:, None] - nodes.amounts["allocatable"] + nodes.amounts["used"]
    scarcest = resources[(missing[resources] / request[resources, None]).argmax(axis=0)]
    amounts = missing[scarcest, np.arange(missing.shape[1])]
    amounts[[node is None or node.spec.unschedulable for node in nodes.plain["objects"]]] = _NEVER
    return scarcest, amounts


def _order(node: Rows, owner: Rows, frees: Ints, missing: Ints) -> list[int]:
    """Return the owners in order. ``node``, ``owner`` and ``frees`` are per task, ``missing`` is per node."""
    pairs, place = np.unique(np.stack((node, owner)), axis=1, return_inverse=True)
    freed = np.zeros(pairs.shape[1], dtype=np.int64)
    np.add.at(freed, place.ravel(), frees)
    inside = np.lexsort((pairs[1], -freed, pairs[0]))
    nodes, owners, freed = pairs[0][inside], pairs[1][inside], freed[inside]
    first = np.flatnonzero(np.diff(nodes, prepend=NONE - 1))
    sizes = np.diff(np.append(first, len(nodes)))
    total = np.cumsum(freed)
    before = total - freed - np.repeat((total - freed)[first], sizes)
    contributes = before < missing[nodes]
    count = np.repeat(np.add.reduceat(contributes.astype(np.int64), first), sizes)
    enough = np.repeat(np.logical_or.reduceat(before + freed >= missing[nodes], first), sizes)
    ranked = np.lexsort((owners, nodes, count))
    return list(dict.fromkeys(owners[ranked[(contributes & enough)[ranked]]].tolist()))


def ended_jobs(question: Question) -> Sequence[Candidate]:
    """Return a candidate in which other jobs end: those of the same queue and with the most resources come first.

    At the gate of the nodes those come first whose ends free nodes; at that of the queue, which a job passes after another
    one, those that wait.
    """
    cluster, queue_name = question.cluster, queue_of(question.cluster, question.target)
    requested = total_request(question)
    ranks = freeing_order(cluster, question.target) if question.gate in {Gate.NODES, Gate.TOPOLOGY} else {}
    parts: list[tuple[tuple[int, int, bool, float], Part]] = []
    for group, queue, steps, count, usage, text in cluster.once(_ends):
        if group == question.target.group:
            continue
        useful = max((usage.get(resource, 0) / units for resource, units in requested.items()), default=0.0)
        rank = ranks.get(steps[-1].key, len(ranks))
        order = (bool(count) if question.gate == Gate.QUEUE else not count, rank, queue != queue_name, -useful)
        parts.append((order, single(steps, text, partial(_effect, cluster, group, steps))))
    parts.sort(key=lambda item: item[0])
    return [Candidate("end", tuple(part for _, part in parts))] if parts else []


def _ends(cluster: Cluster) -> list[tuple[str, str, tuple[Delete, ...], int, dict[str, int], str]]:
    """Return the group, queue, steps, pods with nodes, requests and text of the end of each job."""
    ends: list[tuple[str, str, tuple[Delete, ...], int, dict[str, int], str]] = []
    for group, kind, name, queue, steps in jobs_and_pods(cluster):
        count, usage = _usage(cluster, steps)
        text = f'end of {kind} "{name.removeprefix("default/")}"{_usage_text(count, usage)}'
        ends.append((group, queue, steps, count, usage, text))
    return ends


def _effect(cluster: Cluster, key: str, steps: tuple[Delete, ...]) -> Hashable:
    """Return the same for jobs of one queue and user with equal pods on equal nodes: one of them may end for another.

    Nodes are equal if their kinds and all pods there are, those of other jobs of one job. None where the names of nodes may
    matter: with hypernodes, claims, and pods that depend on other pods.
    """
    state, group = cluster.state, cluster.group(key)
    tasks = state.tasks.plain
    rows = _rows(cluster, steps)
    nodes = np.unique(tasks["node"][rows])
    unequal = state.shapes.selectors or state.hypernodes or any(shape.claims for shape in state.shapes.all)
    if unequal or group is None or not len(nodes) or NONE in nodes:
        return None
    there = np.flatnonzero(np.isin(tasks["node"], nodes))
    job = np.where(np.isin(there, rows), _OWN, tasks["job"][there])
    pods = (tasks[column][there].tolist() for column in ("node", "shape", "status", "priority", "preemptable"))
    pods_by_node: dict[int, list[tuple[int, ...]]] = {node: [] for node in nodes.tolist()}
    for node, *pod in zip(*pods, job.tolist(), strict=True):
        pods_by_node[node].append(tuple(pod))
    kinds, names_of = cluster.once(node_kinds), state.nodes.keys
    equal = sorted((kinds.get(names_of[node], ""), tuple(sorted(pods))) for node, pods in pods_by_node.items())
    return msgspec.json.encode(group.spec), tuple(sorted(group.metadata.annotations.items())), tuple(equal)


def _usage(cluster: Cluster, steps: Sequence[Delete]) -> tuple[int, dict[str, int]]:
    """Return how many of the deleted pods have nodes, and what they request."""
    state, tasks = cluster.state, cluster.state.tasks.plain
    rows = _rows(cluster, steps)
    shapes = Counter(tasks["shape"][rows][ON_NODE[tasks["status"][rows]]].tolist())
    total = Counter[str]()
    for shape, count in shapes.items():
        total.update({name: units * count for name, units in state.shapes.all[shape].request.items()})
    return shapes.total(), total


def _rows(cluster: Cluster, steps: Sequence[Delete]) -> list[int]:
    """Return the rows of the tasks of the deleted pods."""
    rows = cluster.state.tasks.rows
    return [rows[step.key] for step in steps if step.kind == "Pod" and step.key in rows]


def _usage_text(count: int, total: Mapping[str, int]) -> str:
    """Return what pods request, in parentheses."""
    texts = [
        f"{name} {quantity.shown(name, units)}" for name, units in sorted(total.items()) if units and name != "pods"
    ]
    return f" ({', '.join(texts)})" if texts else f" ({quantity.counted(count, 'pod')})" if count else " (waiting)"


def smaller_requests(question: Question) -> Sequence[Candidate]:
    """Return a candidate for each resource of which the pods of the job request less."""
    candidates = []
    requests = requests_of(question.cluster, question.target, overhead=False)
    for resource in sorted(total_request(question)):
        largest = max((request.get(resource, 0) for request in requests), default=0)
        step = min(step_of(question, resource, *_node_sizes(question.cluster, resource)), _round(resource, largest))
        if largest > 1:
            candidates.append(Candidate("request", (_smaller(question, resource, largest, step),)))
    return candidates


def _round(resource: str, largest: int) -> int:
    """Return a round amount that is small beside a request: whole cpus, a power of two of bytes, or one piece."""
    if resource == "cpu":
        return next((units for units in (1000, 100, 10) if largest >= 2 * units), 1)
    return 1 << max((largest // 8).bit_length() - 1, 0)


def _node_sizes(cluster: Cluster, resource: str) -> set[int]:
    index = cluster.state.axis.index.get(resource)
    return set() if index is None else set(cluster.state.nodes.amounts["allocatable"][index].tolist())


def _smaller(question: Question, resource: str, largest: int, step: int) -> Part:
    grain = grain_of(resource, largest)

    def limit(count: int) -> int:
        return max(largest - count * grain, 1)

    def steps(count: int) -> Steps:
        return with_requests_up_to(question.cluster, question.target, resource, limit(count))

    def text(count: int) -> str:
        now, then = quantity.shown(resource, largest), quantity.shown(resource, limit(count))
        return f"request at most {then} {resource} per pod instead of {now}"

    return Part(-(-(largest - 1) // grain), steps, text, max(step // grain, 1))


def fewer_pods(question: Question) -> Sequence[Candidate]:
    """Return a candidate that lets the job start with fewer pods."""
    cluster, target = question.cluster, question.target
    now, least = minimum_of(cluster, target), 1
    if target.job:
        least = max(len(read_job(cluster.objects["BatchJob", target.job]).spec.tasks), 1)
    if now <= least or (not target.job and cluster.group(target.group) is None):
        return []
    part = Part(
        now - least,
        lambda fewer: with_minimum(cluster, target, now - fewer),
        lambda fewer: f"set minAvailable to {now - fewer} instead of {now}",
    )
    return [Candidate("minimum", (part,))]


def quotas(question: Question) -> Sequence[Candidate]:
    """Return a candidate that raises the ResourceQuotas of the namespace."""
    cluster = question.cluster
    parts = []
    for key, quota in cluster.of_kind("ResourceQuota").items():
        if quota.metadata.namespace == question.target.namespace:
            parts += [_quota(question, key, quota, name) for name in sorted(quota.status.hard)]
    return [Candidate("quota", tuple(parts))] if parts else []


def _quota(question: Question, key: str, quota: policy.ResourceQuota, name: str) -> Part:
    resource = name.removeprefix("requests.").removeprefix("limits.")
    now = quantity.amount(resource, quota.status.hard[name])
    used_amount = quantity.amount(resource, quota.status.used.get(name, 0))
    total = sum(pod_usage(spec).get(name, 0) for spec in pod_specs(question.cluster, question.target))
    text = f'raise {name} of ResourceQuota "{quota.metadata.name}" from {quantity.shown(resource, now)} to'
    raised = Raised(question, resource, now, max(used_amount - now, 0) + 2 * total)
    return raised.part("ResourceQuota", key, partial(_raised, name), lambda value, _: f"{text} {value}")


def _raised(name: str, value: str, body: Json) -> Json:
    status = body.get("status") or {}
    hard = (body.get("spec") or {}).get("hard") or {}
    spec = (body.get("spec") or {}) | ({"hard": hard | {name: value}} if hard else {})
    return body | {"spec": spec, "status": status | {"hard": (status.get("hard") or {}) | {name: value}}}


def resumed_job(question: Question) -> Sequence[Candidate]:
    """Return a candidate that resumes a job that its spec suspends."""
    cluster, target = question.cluster, question.target
    if not is_suspended(cluster, target):
        return []
    steps = edit_job(cluster, target, lambda spec: spec | {"suspend": False})
    return [Candidate("hold", (single(steps, "set spec.suspend of the job to false"),))]


def own_scheduler(question: Question) -> Sequence[Candidate]:
    """Return a candidate that gives the pods volcanopy's schedulerName, if they have another."""
    target, cluster = question.target, question.cluster
    scheduler = foreign_scheduler(cluster, target)
    if not scheduler:
        return []
    steps = edit_job(cluster, target, _for_this_scheduler) if target.job else edit_pods(cluster, target, _named)
    return [
        Candidate("scheduler", (single(steps, f'set schedulerName to "{names.SCHEDULER}" instead of "{scheduler}"'),))
    ]


def _named(spec: Json) -> Json:
    return spec | {"schedulerName": names.SCHEDULER}


def _for_this_scheduler(spec: Json) -> Json:
    tasks = [with_spec(task, lambda pod: _named(pod) if pod.get("schedulerName") else pod) for task in spec["tasks"]]
    return _named(spec) | {"tasks": tasks}
