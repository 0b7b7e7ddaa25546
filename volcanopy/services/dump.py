"""A bug report that writes itself: the world and the plan of a cycle that went wrong, as files.

``<session>.world.json`` is a Kubernetes List of everything the cycle looked at, in the form that ``volcanopy plan -f``
reads, so that the cycle can be run again on a desk.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanopy.api import core, quantity
from volcanopy.kube.kinds import Kind
from volcanopy.kube.slices import NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from volcanopy.scheduler.plan import Plan, document
from volcanopy.scheduler.snapshot import Snapshot
from volcanopy.scheduler.status import Status


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


def objects(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The objects of a snapshot, as the API server would show them if all that was assumed were done."""
    entries = [_entry(NAMESPACES, one) for one in snapshot.namespaces.values()]
    entries += [_entry(PRIORITY_CLASSES, one) for one in snapshot.priority_classes.values()]
    entries += [_entry(QUEUES, one) for one in snapshot.queues.objects if one is not None]
    entries += [_entry(POD_GROUPS, one) for one in snapshot.jobs.groups if one is not None]
    entries += [_entry(NODES, _node(snapshot, row)) for row in range(len(snapshot.nodes))]
    entries += [_entry(PODS, _pod(snapshot, row)) for row, one in enumerate(snapshot.tasks.pods) if one is not None]
    return entries


def _node(snapshot: Snapshot, row: int) -> core.Node:
    """A node with the room that the snapshot counts."""
    node = snapshot.nodes.traits.objects[row]
    units = snapshot.nodes.allocatable.values[:, row].tolist()
    room = quantity.texts({name: amount for name, amount in zip(snapshot.axis.names, units, strict=True) if amount})
    return replace(node, status=replace(node.status, allocatable=dict(room)))


def _pod(snapshot: Snapshot, row: int) -> core.Pod:
    """A pod, on the node that it is being bound to, and on its way out if it is being evicted."""
    pod: core.Pod = snapshot.tasks.pods[row]
    node, status = int(snapshot.tasks.node[row]), int(snapshot.tasks.status[row])
    if node >= 0 and not pod.spec.node_name:
        pod = replace(pod, spec=replace(pod.spec, node_name=snapshot.nodes.names[node]))
    if status == Status.RELEASING and pod.metadata.deletion_timestamp is None:
        pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=snapshot.now))
    return pod


def _entry(kind: Kind[Any], thing: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(thing)}
