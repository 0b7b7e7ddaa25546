"""A bug report that writes itself: the world and the plan of a cycle that went wrong, as files.

``<session>.world.json`` is a Kubernetes List of everything the cycle looked at, in the form that ``volcanopy plan -f``
reads, so that the cycle can be run again on a desk.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanopy.api import core, quantity
from volcanopy.kube.cache.followed_kinds import (
    DISRUPTION_BUDGETS,
    HYPER_NODES,
    NAMESPACES,
    NODES,
    NUMA_TOPOLOGIES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
    SUPPLIES,
)
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.model.plan import Plan, document
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.scheduler import replay


def dump(folder: Path, snapshot: Snapshot, plan: Plan | None, problems: Sequence[str]) -> Path:
    """Write the world and, where there is one, the plan with what is wrong with it. Returns the world's file."""
    folder.mkdir(parents=True, exist_ok=True)
    world = folder / f"{snapshot.session}.world.json"
    world.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects(snapshot)}))
    made = {
        "session": snapshot.session,
        "now": snapshot.now.isoformat(),
        "problems": list(problems),
        "plan": None if plan is None else document(plan),
    }
    (folder / f"{snapshot.session}.plan.json").write_text(json.dumps(made, indent=2), encoding="utf-8")
    return world


def objects(snapshot: Snapshot, circumstances: replay.CycleContext | None = None) -> list[dict[str, Any]]:
    """The objects of a snapshot, as the API server shows them; first of all the cycle, which says what is on its way."""
    entries = [replay.entry(snapshot, circumstances)]
    entries += [_entry(NAMESPACES, one) for one in snapshot.namespaces.values()]
    entries += [_entry(PRIORITY_CLASSES, one) for one in snapshot.priority_classes.values()]
    entries += [_entry(QUEUES, one) for one in snapshot.queues.objects if one is not None]
    entries += [_entry(POD_GROUPS, one) for one in snapshot.jobs.groups if one is not None]
    entries += [_entry(HYPER_NODES, one) for one in snapshot.declared]
    entries += [_entry(NUMA_TOPOLOGIES, one) for one in snapshot.numa.values()]
    entries += [_entry(RESOURCE_QUOTAS, one) for one in snapshot.quotas]
    entries += [_entry(DISRUPTION_BUDGETS, one) for one in snapshot.budgets]
    entries += _supplies(snapshot)
    entries += [_entry(NODES, _node(snapshot, row)) for row in range(len(snapshot.nodes))]
    entries += [_entry(PODS, one) for one in snapshot.tasks.pods if one is not None]
    return entries


def _supplies(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The volumes, devices and claims, those that were decided upon as decided."""
    known, kinds = snapshot.claim_tables, {kind.type: kind for kind in SUPPLIES}
    tables: tuple[Mapping[str, Any], ...] = (
        known.claims,
        known.volumes,
        known.classes,
        known.csi_nodes,
        known.csi_drivers,
        known.capacities,
        known.device_claims,
        known.offers.slices,
        known.offers.classes,
    )
    return [_entry(kinds[type(one)], one) for table in tables for one in table.values()]


def _node(snapshot: Snapshot, row: int) -> core.Node:
    """A node with the room that the snapshot counts."""
    node = snapshot.nodes.traits.objects[row]
    units = snapshot.nodes.allocatable.values[:, row].tolist()
    room = quantity.texts({name: amount for name, amount in zip(snapshot.axis.names, units, strict=True) if amount})
    return replace(node, status=replace(node.status, allocatable=dict(room)))


def _entry(kind: Kind[Any], thing: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(thing)}
