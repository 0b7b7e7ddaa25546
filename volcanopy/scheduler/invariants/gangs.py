"""Invariants of gangs: what starts is whole.

Minima are read from the pod groups, members and their roles from the pods; nothing is shared with the code that decides.
Pods that request nothing may start after the others. With the invariant ``gang:members`` they count before they have a
node only if one admits them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from volcanopy.api import core, names
from volcanopy.scheduler.invariants import node_rules
from volcanopy.scheduler.invariants.plan_outcome import PRESENT, Moves
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

_ROLE = names.TASK_SPEC


def split(moves: Moves) -> Iterator[str]:
    """Yield the jobs with bound pods that do not reach a minimum: of the job, of a task, or of sub-groups."""
    jobs = moves.snapshot.jobs
    for job in np.unique(moves.snapshot.tasks.job[moves.bound]).tolist():
        if job != NONE:
            lacking = missing(moves, job, PRESENT[moves.status] | may_follow(moves, job))
            yield from (f"gang {jobs.keys[job]} is split: {text}" for text in lacking)


def missing(moves: Moves, job: int, counted: Mask) -> list[str]:
    """Return the minima that the counted (T,) pods of a job do not reach."""
    group = moves.snapshot.jobs.groups[job]
    if group is None:
        return []
    pods = [moves.snapshot.tasks.pods[row] for row in moves.snapshot.members(job).tolist() if counted[row]]
    return [f"{count}/{needed} {what}" for what, count, needed in _minima(group, pods) if count < needed]


def may_follow(moves: Moves, job: int) -> Mask:
    """(T,): the pending pods of a job without requests and scheduling gates."""
    tasks = moves.snapshot.tasks
    rows = moves.snapshot.members(job)
    rows = rows[(moves.status[rows] == Status.PENDING) & ~tasks.gated[rows]]
    requests = moves.requests(rows)
    requests[moves.snapshot.axis.index["pods"]] = 0
    rows = rows[~requests.any(axis=0)]
    result: Mask = np.zeros(len(tasks), dtype=np.bool_)
    for row in rows.tolist():
        result[row] = not moves.enforces("gang", "members") or _could_run(moves, tasks.pods[row])
    return result


def _could_run(moves: Moves, pod: core.Pod) -> bool:
    """Return whether a node has a place for one more pod, and admits this one where predicates are enforced."""
    nodes, filtered = moves.snapshot.nodes, moves.enforces("predicates", "traits")
    places = nodes.allocatable.values[moves.snapshot.axis.index["pods"]] > 0
    objects = nodes.traits.objects
    return any(not filtered or node_rules.admits(objects[row], pod) for row in np.flatnonzero(places).tolist())


def _minima(group: core.PodGroup, pods: list[core.Pod]) -> Iterator[tuple[str, int, int]]:
    """Yield the minima of a job, its tasks and its sub-groups, each with how many of these pods count for it.

    Those of tasks do not apply if they exceed the minimum of the job in sum; sub-groups have to be of their size.
    """
    spec = group.spec
    yield "required pods have a node", len(pods), spec.min_member
    minima = {name: needed for name, needed in spec.min_task_member.items() if needed > 0}
    if sum(minima.values()) <= spec.min_member:
        counts = Counter(pod.metadata.annotations.get(_ROLE) or pod.metadata.labels.get(_ROLE, "") for pod in pods)
        for name, needed in minima.items():
            yield f"required pods of task {name} have a node", counts[name], needed
    policies = spec.sub_group_policy
    sizes = Counter(key for pod in pods if (key := _sub_group_of(policies, pod.metadata.labels)) is not None)
    for number, policy in enumerate(policies):
        whole = sum(1 for (owner, _), count in sizes.items() if owner == number and count >= policy.sub_group_size)
        yield f"required sub-groups of {policy.name} have nodes", whole, policy.min_sub_groups


def _sub_group_of(
    policies: tuple[core.SubGroupPolicy, ...], labels: Mapping[str, str]
) -> tuple[int, tuple[str, ...]] | None:
    """Return the policy that a pod belongs to, the first that matches its labels, and the values of its label keys."""
    for number, policy in enumerate(policies):
        if policy.label_selector is not None and not node_rules.matches(policy.label_selector, labels):
            continue
        values = tuple(labels.get(key, "") for key in policy.match_label_keys)
        if values and all(values):
            return number, values
    return None
