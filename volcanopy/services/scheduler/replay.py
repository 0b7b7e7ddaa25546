"""The part of a cycle's input that is no API object, written into dumps so that the cycle can be repeated.

It has the form of an object, so that it can be in the same list: the times of this cycle and the one before, the measures,
and the decided changes that the API server does not show yet.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volcanopy.api.core import Labels, Meta, ReadModel
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import NOTHING, Measured, Reading
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status

GROUP, VERSION, KIND = "dump.volcanopy.io", "v1", "SchedulingCycle"


class Value(ReadModel, frozen=True, kw_only=True, gc=False):
    """A :class:`Reading`, of which JSON has the finite numbers."""

    mean: float = math.nan
    at: float = math.inf
    deviation: float = math.nan
    peak: float = math.nan
    prediction: float = math.nan


class Measure(ReadModel, frozen=True, kw_only=True, gc=False):
    """The values of a measure by node."""

    nodes: dict[str, Value] = msgspec.field(default_factory=dict)


class Measures(ReadModel, frozen=True, kw_only=True, gc=False):
    """What was measured, by name, the seconds between two measurements, and those after which a value is unknown."""

    interval: float
    max_age: float
    series: dict[str, Measure] = msgspec.field(default_factory=dict)


class Binding(ReadModel, frozen=True, kw_only=True, gc=False):
    """Where a pod is being bound to, and the annotations that come with it."""

    node: str
    annotations: Labels = msgspec.field(default_factory=dict)


class SchedulingCycle(ReadModel, frozen=True, kw_only=True, gc=False):
    """A cycle: what it knew beside the objects."""

    metadata: Meta
    now: datetime
    previous: datetime | None = None
    measures: Measures | None = None
    binding: dict[str, Binding] = msgspec.field(default_factory=dict)
    """The pods that are being bound, by namespace and name."""
    evicting: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    """The scheduler names of the pods, of each served API; empty: the default."""
    default_queue: str = ""
    """The queue of pod groups without a queue; empty: the default."""
    config: str = ""
    """The text of the scheduler configuration, where it is known."""


class CycleContext(NamedTuple):
    """The settings of a cycle that neither the objects nor the snapshot contain."""

    scheduler_names: tuple[str, ...] = ()
    default_queue: str = ""
    config: str = ""


def entry(snapshot: Snapshot, circumstances: CycleContext | None = None) -> dict[str, Any]:
    """The cycle of a snapshot, as an object of a list."""
    around = circumstances or CycleContext()
    cycle = SchedulingCycle(
        metadata=Meta(name=snapshot.session),
        now=snapshot.now,
        previous=snapshot.previous,
        measures=_measures(snapshot),
        binding=dict(_binding(snapshot)),
        evicting=tuple(_evicting(snapshot)),
        scheduler_names=around.scheduler_names,
        default_queue=around.default_queue,
        config=around.config,
    )
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **msgspec.to_builtins(cycle)}


def _binding(snapshot: Snapshot) -> Iterator[tuple[str, Binding]]:
    tasks, nodes = snapshot.tasks, snapshot.nodes
    for row in np.flatnonzero((tasks.node != NONE) & (tasks.status != Status.PENDING)).tolist():
        pod, node = tasks.pods[row], int(tasks.node[row])
        if not pod.spec.node_name:
            notes = next((holder.notes for holder in nodes.assigned_pods[node] or () if holder.row == row), {})
            own = pod.metadata.annotations
            coming = {key: text for key, text in notes.items() if own.get(key) != text}
            yield str(tasks.keys[row]), Binding(node=nodes.names[node], annotations=coming)


def _evicting(snapshot: Snapshot) -> Iterator[str]:
    tasks = snapshot.tasks
    for row in np.flatnonzero(tasks.status == Status.RELEASING).tolist():
        if tasks.pods[row].metadata.deletion_timestamp is None:
            yield str(tasks.keys[row])


def _measures(snapshot: Snapshot) -> Measures | None:
    measured = snapshot.measures.measured
    if measured is NOTHING:
        return None
    series = {name: Measure(nodes=_values(nodes)) for name, nodes in sorted(measured.nodes.items())}
    return Measures(interval=measured.interval.total_seconds(), max_age=measured.max_age.total_seconds(), series=series)


def _values(measured: Mapping[str, Reading]) -> dict[str, Value]:
    return {
        key: Value(**{name: number for name, number in reading._asdict().items() if math.isfinite(number)})
        for key, reading in sorted(measured.items())
    }


def readings(values: Mapping[str, Value]) -> dict[str, Reading]:
    """Return the values as they were measured."""
    return {key: Reading(*msgspec.structs.astuple(value)) for key, value in values.items()}


def apply_cycle(state: State, cycle: SchedulingCycle) -> None:
    """Apply the cycle's input to a state that has all objects; take the snapshot at ``cycle.now``."""
    binds = (Bind(key, bind.node, annotations=bind.annotations) for key, bind in cycle.binding.items())
    state.assume(Plan((*binds, *(Evict(key, "") for key in cycle.evicting))))
    measures = cycle.measures
    if measures is not None:
        state.set_measures(
            Measured(
                {name: readings(each.nodes) for name, each in measures.series.items() if each.nodes},
                timedelta(seconds=measures.interval),
                timedelta(seconds=measures.max_age),
            )
        )
    if cycle.previous is not None:
        state.snapshot(cycle.previous, "before")
