"""What no plan may ever do: the one oracle of property tests, simulator, service and applier.

The plan is replayed on the snapshot with plain sums, independent of the ledger that made it.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.plan import Bind, Evict, Plan
from volcanopy.scheduler.snapshot import NONE, Snapshot
from volcanopy.scheduler.status import EVICTABLE, HOLDING, ON_NODE, READY, Status

PROMISES = frozenset({"gang", "proportion", "capacity", "conformance"})
"""The plugins that promise something which is checked here, beside what always holds."""


def violations(snapshot: Snapshot, plan: Plan, promised: Iterable[str] = PROMISES) -> list[str]:
    """Everything that the plan does wrong, a sentence each; empty for a sound plan.

    ``promised`` names the plugins in force: gangs are whole only where gang is configured.
    """
    promised = frozenset(promised)
    rows = {str(snapshot.tasks.keys[row]): row for row in _task_rows(snapshot)}
    found = _misdirected(snapshot, plan, rows)
    binds = {rows[effect.pod]: effect.node for effect in plan.of(Bind) if effect.pod in rows}
    evicted = {rows[effect.pod] for effect in plan.of(Evict) if effect.pod in rows}
    found += _overcommitted(snapshot, binds)
    if "gang" in promised:
        found += _split(snapshot, binds, evicted)
    if promised & {"proportion", "capacity"}:
        found += _over_capability(snapshot, binds, evicted)
    if "conformance" in promised:
        found += _protected(snapshot, evicted)
    return found


def _task_rows(snapshot: Snapshot) -> list[int]:
    return [row for row, key in enumerate(snapshot.tasks.keys) if key is not None]


def _misdirected(snapshot: Snapshot, plan: Plan, rows: dict[str, int]) -> list[str]:
    found = []
    binds, evicts = plan.of(Bind), plan.of(Evict)
    for key, times in Counter(effect.pod for effect in binds).items():
        if times > 1:
            found.append(f"pod {key} is bound {times} times")
    for effect in binds:
        if effect.pod not in rows:
            found.append(f"pod {effect.pod} is bound but does not exist")
        elif snapshot.tasks.status[rows[effect.pod]] != Status.PENDING:
            found.append(f"pod {effect.pod} is bound but is not waiting for a node")
        elif snapshot.tasks.gated[rows[effect.pod]]:
            found.append(f"pod {effect.pod} is bound although a scheduling gate holds it back")
        if effect.node not in snapshot.nodes.index:
            found.append(f"pod {effect.pod} is bound to node {effect.node}, which does not exist")
    for key, times in Counter(effect.pod for effect in evicts).items():
        if times > 1:
            found.append(f"pod {key} is evicted {times} times")
    for effect in evicts:
        row = rows.get(effect.pod)
        if row is None or not EVICTABLE[snapshot.tasks.status[row]]:
            found.append(f"pod {effect.pod} is evicted but does not run")
        elif not snapshot.tasks.preemptable[row]:
            found.append(f"pod {effect.pod} is evicted although it is not preemptable")
    return found


def _request(snapshot: Snapshot, row: int) -> dict[str, int]:
    units = snapshot.shapes.request.values[:, snapshot.tasks.shape[row]]
    return {name: int(value) for name, value in zip(snapshot.axis.names, units, strict=True) if value}


def _overcommitted(snapshot: Snapshot, binds: dict[int, str]) -> list[str]:
    """Bound pods must fit beside all that takes room of their node now; what leaves has not left yet."""
    taken: dict[str, Counter[str]] = {name: Counter() for name in set(binds.values())}
    asked = [snapshot.nodes.index[name] for name in taken if name in snapshot.nodes.index]
    for row in np.flatnonzero(np.isin(snapshot.tasks.node, asked) & ON_NODE[snapshot.tasks.status]).tolist():
        taken[snapshot.nodes.names[snapshot.tasks.node[row]]].update(_request(snapshot, row))
    added: dict[str, Counter[str]] = {name: Counter() for name in taken}
    for row, node_name in binds.items():
        added[node_name].update(_request(snapshot, row))
    found = []
    for name, more in sorted(added.items()):
        position = snapshot.nodes.index.get(name)
        if position is None:
            continue
        for resource, units in sorted(more.items()):
            room = int(snapshot.nodes.allocatable[resource][position])
            wanted = taken[name][resource] + units
            if wanted > room:
                amounts = f"{quantity.text(resource, wanted)} of {quantity.text(resource, room)}"
                found.append(f"node {name} is overcommitted: {amounts} {resource}")
    return found


def _split(snapshot: Snapshot, binds: dict[int, str], evicted: set[int]) -> list[str]:
    """A job of which something is bound has its minimum afterwards."""
    jobs, tasks = snapshot.jobs, snapshot.tasks
    found = []
    for job in sorted({int(tasks.job[row]) for row in binds} - {NONE}):
        members = snapshot.members(job).tolist()
        there = [row for row in members if row in binds or (READY[tasks.status[row]] and row not in evicted)]
        idle = [
            row
            for row in members
            if tasks.status[row] == Status.PENDING
            and row not in binds
            and snapshot.shapes.best_effort[tasks.shape[row]]
        ]
        minimum = int(jobs.min_available[job])
        if len(there) + len(idle) < minimum:
            found.append(
                f"gang {jobs.keys[job]} is split: {len(there)} of the {minimum} pods that it needs have a node"
            )
    return found


def _over_capability(snapshot: Snapshot, binds: dict[int, str], evicted: set[int]) -> list[str]:
    """No queue takes more than its capability of a resource that its new pods ask for."""
    queues, jobs, tasks = snapshot.queues, snapshot.jobs, snapshot.tasks
    held: dict[int, Counter[str]] = {}
    added: dict[int, set[str]] = {}
    for row in _task_rows(snapshot):
        job = int(tasks.job[row])
        if job == NONE or jobs.queue[job] == NONE:
            continue
        if row in binds or (HOLDING[tasks.status[row]] and row not in evicted):
            queue = int(jobs.queue[job])
            request = _request(snapshot, row)
            held.setdefault(queue, Counter()).update(request)
            if row in binds:
                added.setdefault(queue, set()).update(request)
    found = []
    for queue, resources in sorted(added.items()):
        for resource in sorted(resources - {"pods"}):
            position = snapshot.axis.index[resource]
            limit = int(queues.capability.values[position, queue])
            unlimited = not queues.capability_set[position, queue] or (limit <= 0 and resource in {"cpu", "memory"})
            if not unlimited and held[queue][resource] > limit:
                amounts = f"{quantity.text(resource, held[queue][resource])} of {quantity.text(resource, limit)}"
                found.append(f"queue {queues.names[queue]} is over its capability: {amounts} {resource}")
    return found


def _protected(snapshot: Snapshot, evicted: set[int]) -> list[str]:
    found = []
    for row in sorted(evicted):
        pod = snapshot.tasks.pods[row]
        if pod.spec.priority_class_name.startswith("system-") or pod.metadata.namespace == "kube-system":
            found.append(f"pod {snapshot.tasks.keys[row]} is evicted although the cluster needs it")
    return found
