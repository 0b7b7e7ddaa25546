"""Dumps of failed cycles: the snapshot and the plan, as files.

``<session>.world.json`` is a Kubernetes List of all objects of the snapshot, in the form that ``volcanopy plan -f`` reads, so
that the cycle can be repeated elsewhere.
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
    """Write the snapshot and the plan, if there is one, with its problems. Returns the snapshot's file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{snapshot.session}.world.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects(snapshot)}))
    made = {
        "session": snapshot.session,
        "now": snapshot.now.isoformat(),
        "problems": list(problems),
        "plan": None if plan is None else document(plan),
    }
    (folder / f"{snapshot.session}.plan.json").write_text(json.dumps(made, indent=2), encoding="utf-8")
    return file


def objects(snapshot: Snapshot, circumstances: replay.CycleContext | None = None) -> list[dict[str, Any]]:
    """Return the objects of a snapshot as the API server shows them, after the cycle with its pending changes."""
    entries = [replay.entry(snapshot, circumstances)]
    entries += [_entry(NAMESPACES, item) for item in snapshot.namespaces.values()]
    entries += [_entry(PRIORITY_CLASSES, item) for item in snapshot.priority_classes.values()]
    entries += [_entry(QUEUES, item) for item in snapshot.queues.objects if item is not None]
    entries += [_entry(POD_GROUPS, item) for item in snapshot.jobs.groups if item is not None]
    entries += [_entry(HYPER_NODES, item) for item in snapshot.declared]
    entries += [_entry(NUMA_TOPOLOGIES, item) for item in snapshot.numa.values()]
    entries += [_entry(RESOURCE_QUOTAS, item) for item in snapshot.quotas]
    entries += [_entry(DISRUPTION_BUDGETS, item) for item in snapshot.budgets]
    entries += _supplies(snapshot)
    entries += [_entry(NODES, _node(snapshot, row)) for row in range(len(snapshot.nodes))]
    entries += [_entry(PODS, item) for item in snapshot.tasks.pods if item is not None]
    return entries


def _supplies(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return volumes, devices and claims, with decided allocations."""
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
    return [_entry(kinds[type(item)], item) for table in tables for item in table.values()]


def _node(snapshot: Snapshot, row: int) -> core.Node:
    """Return a node with the allocatable resources of the snapshot."""
    node = snapshot.nodes.traits.objects[row]
    units = snapshot.nodes.allocatable.values[:, row].tolist()
    allocatable = quantity.texts(
        {name: amount for name, amount in zip(snapshot.axis.names, units, strict=True) if amount}
    )
    return replace(node, status=replace(node.status, allocatable=dict(allocatable)))


def _entry(kind: Kind[Any], item: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(item)}
