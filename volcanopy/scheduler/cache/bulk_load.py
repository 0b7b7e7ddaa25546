"""Bulk load of the pods of an initial list: the same result as single upserts, several times faster.

Upserted one by one are pods that the state has already, pods that back off, and pods with affinity or spread terms, with
claims on volumes or devices, or with assigned cards or cpus.
"""

from collections.abc import Callable, Collection

import numpy as np

from volcanopy.api import core, names
from volcanopy.api.builtin import pod_claims
from volcanopy.api.builtin.resize import with_resized_requests
from volcanopy.scheduler.cache import totals
from volcanopy.scheduler.cache.shapes import has_terms
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.cache.task_places import is_task, set_task
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.snapshot import NONE

ShapeOf = Callable[[core.Pod], int]
"""Given a pod, the number of its shape."""
BULK_SIZE = 32
"""The minimum number of pods for a bulk load."""


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
        elif is_task(state, pod):
            plain[key] = with_resized_requests(pod)
    for pod in rest:  # first, since selectors in their terms give the others their shapes
        if pod.metadata.key not in plain:
            upsert(pod)
    state.version += 1
    _load_plain(state, plain, shape_of)
    for pod in rest:
        if pod.metadata.key in plain:
            upsert(pod)


def _is_plain(pod: core.Pod) -> bool:
    if has_terms(pod.spec) or pod_claims.anything(pod.spec):
        return False
    return names.ASSIGNMENT_KEYS.isdisjoint(pod.metadata.annotations)


def _load_plain(state: StateTables, pods: dict[str, core.Pod], shape_of: ShapeOf) -> None:
    last: dict[str, tuple[core.Pod, int]] = {}
    # First what may fail because of a pod's content.
    places = [_job_and_shape(state, pod, last, shape_of) for pod in pods.values()]
    rows = np.array([state.tasks.row(key) for key in pods], dtype=np.intp)
    for row, (key, pod), (job, shape) in zip(rows.tolist(), pods.items(), places, strict=True):
        set_task(state, row, key, pod, job, shape)
    totals.count_many(state, rows)


def _job_and_shape(
    state: StateTables, pod: core.Pod, last: dict[str, tuple[core.Pod, int]], shape_of: ShapeOf
) -> tuple[int, int]:
    """Return the row of a pod's job, and the number of its shape: mostly that of the ``last`` pod of its job or owner."""
    meta = pod.metadata
    job = pod_fields.task_job(pod) if pod.spec.scheduler_name in state.scheduler_names else ""
    owner = job or (meta.owner_references[0].uid if meta.owner_references else meta.namespace)
    is_same = pod_fields.same_shape if state.shapes.selectors else pod_fields.same_spec
    known = last.get(owner)
    if known is None or not is_same(known[0], pod) or known[0].metadata.namespace != meta.namespace:
        known = last[owner] = pod, shape_of(pod)
    return state.jobs.row(job) if job else NONE, known[1]
