"""Bulk load of the pods of an initial list: the same result as single upserts, several times faster.

Upserted one by one are pods that the state has already, pods that back off, and pods with affinity or spread terms, with
claims on volumes or devices, or with assigned cards or cpus.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from volcanopy.api import core, names
from volcanopy.api.builtin import pod_claims
from volcanopy.api.builtin.resize import with_resized_requests
from volcanopy.api.queue_gate import is_gated
from volcanopy.scheduler.cache import task_places, totals
from volcanopy.scheduler.cache.shapes import has_terms
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


@dataclass
class _Group:
    """The common values of the pods of one job, or of one owner without a job."""

    row: int
    group: core.PodGroup | None
    roles: dict[str, int] = field(default_factory=dict)
    last: core.Pod | None = None
    shape: int = NONE


class _Columns:
    """The columns of the loaded tasks, one list each."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {
            name: []
            for name in (
                *("pods", "status", "job", "role", "mark", "shape", "node", "nominated", "priority"),
                *("created", "started", "runtime", "ordinal", "preemptable", "gated"),
            )
        }
        self.add = tuple(column.append for column in self.values.values())


ShapeOf = Callable[[core.Pod], int]
"""Given a pod, the number of its shape."""
BULK_SIZE = 32
"""The minimum number of pods for a bulk load."""
AT_ONCE = 8192
"""Pods whose values are in lists at the same time: those of all would take as much memory as the columns that they become."""


def load(state: StateTables, pods: Collection[core.Pod], upsert: Callable[[core.Pod], None], shape_of: ShapeOf) -> None:
    """Insert or update pods; ``upsert`` does it with one, ``shape_of`` numbers its shape."""
    if len(pods) < BULK_SIZE:
        for pod in pods:
            upsert(pod)
        return
    plain: dict[str, core.Pod] = {}
    rest: list[core.Pod] = []
    for pod in pods:
        key = pod.metadata.key
        if key in plain or key in state.tasks.rows or key in state.writes.backoffs or not _is_plain(pod):
            rest.append(pod)
        elif _is_task(state, pod):
            plain[key] = with_resized_requests(pod)
    for pod in rest:  # first, since selectors in their terms give the others their shapes
        if pod.metadata.key not in plain:
            upsert(pod)
    state.version += 1
    remaining = iter(plain.items())
    while part := dict(islice(remaining, AT_ONCE)):
        _load_plain(state, part, shape_of)
    for pod in rest:
        if pod.metadata.key in plain:
            upsert(pod)


def _is_plain(pod: core.Pod) -> bool:
    spec = pod.spec
    return not (has_terms(spec) or pod_claims.anything(spec)) and names.ASSIGNMENT_KEYS.isdisjoint(
        pod.metadata.annotations
    )


def _is_task(state: StateTables, pod: core.Pod) -> bool:
    if pod.spec.node_name and not pod_fields.is_over(pod):
        return True
    return pod.spec.scheduler_name in state.scheduler_names and bool(pod_fields.job_key(pod))


def _load_plain(state: StateTables, pods: dict[str, core.Pod], shape_of: ShapeOf) -> None:
    columns = _Columns()
    groups: dict[str, _Group] = {}
    for key, pod in pods.items():
        _read(state, key, pod, groups, columns, shape_of)
    rows = np.array([state.tasks.row(key) for key in pods], dtype=np.intp)
    for name, values in columns.values.items():
        column = state.tasks.plain[name]
        if column.dtype == object:  # else numpy would look into each object for a sequence
            objects = np.empty(len(values), dtype=object)
            objects[:] = values
            column[rows] = objects
        else:
            column[rows] = values
    totals.count_many(state, rows)


def _read(
    state: StateTables, key: str, pod: core.Pod, groups: dict[str, _Group], columns: _Columns, shape_of: ShapeOf
) -> None:
    spec, meta = pod.spec, pod.metadata
    status, node = task_places.status_of(state, key, pod)
    job = pod_fields.task_job(pod) if spec.scheduler_name in state.scheduler_names else ""
    group_key = job or (meta.owner_references[0].uid if meta.owner_references else meta.namespace)
    entry = groups.get(group_key)
    if entry is None:
        row = state.jobs.row(job) if job else NONE
        entry = groups[group_key] = _Group(row, state.jobs.plain["groups"][row] if job else None)
    mark = role = NONE
    if job:
        name = pod_fields.role_of(pod)
        known_role = entry.roles.get(name)
        role = entry.roles[name] = state.role_row(entry.row, name) if known_role is None else known_role
        if entry.group is not None and entry.group.spec.sub_group_policy:
            mark = state.marks.of(entry.group, pod)
    last = entry.last
    is_same = pod_fields.same_shape if state.shapes.selectors else pod_fields.same_spec
    same = last is not None and is_same(last, pod)
    if not same or last is None or last.metadata.namespace != meta.namespace:
        entry.last, entry.shape = pod, shape_of(pod)
    nominated = pod.status.nominated_node_name
    values = (
        *(pod, status, entry.row, role, mark, entry.shape),
        node,
        state.node_row(nominated) if nominated and status == Status.PENDING else NONE,
        pod_fields.task_priority(pod),
        pod_fields.seconds(meta.creation_timestamp),
        pod_fields.seconds(pod.status.start_time),
        pod_fields.runtime(pod),
        pod_fields.ordinal(meta.name),
        pod_fields.flag(meta, names.PREEMPTABLE, absent=True),
        is_gated(pod),
    )
    for add, value in zip(columns.add, values, strict=True):
        add(value)
