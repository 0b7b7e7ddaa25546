"""Dumps of failed cycles: the snapshot and the plan, as files.

``<session>.world.json`` is a Kubernetes List of all objects of the snapshot, in the form that ``volcanopy plan -f`` reads, so
that the cycle can be repeated elsewhere.
"""

import json
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanopy.api import core, quantity
from volcanopy.kube.cache.followed_kinds import OPTIONAL, REQUIRED
from volcanopy.scheduler.model.plan import Plan, document
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.scheduler import replay

MOST_DUMPS = 5
MOST_BYTES = 256 * 2**20
"""Most dumps in a folder, and their bytes: older ones are removed."""
_WORLD, _PLAN = ".world.json", ".plan.json"


def dump(
    folder: Path, snapshot: Snapshot, plan: Plan | None, problems: Sequence[str], *, scheduler_names: Sequence[str] = ()
) -> Path:
    """Write the snapshot and the plan, if there is one, with its problems. Returns the snapshot's file.

    ``scheduler_names`` are those of the pods that the scheduler places. The files are readable by their owner only. Raises
    OSError, also for a dump that is larger than all dumps may be.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{snapshot.session}{_WORLD}"
    items = objects(snapshot, replay.CycleContext(tuple(scheduler_names)))
    content = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    if len(content) > MOST_BYTES:
        raise OSError(f"the dump has {len(content)} bytes, at most {MOST_BYTES} are kept")
    _make_space(folder, len(content))
    _write(file, content)
    made = {
        "session": snapshot.session,
        "now": snapshot.now.isoformat(),
        "problems": list(problems),
        "plan": None if plan is None else document(plan),
    }
    _write(folder / f"{snapshot.session}{_PLAN}", json.dumps(made, indent=2).encode())
    return file


def _make_space(folder: Path, size: int) -> None:
    """Remove the oldest dumps so that one more of this size is within the limits."""
    dumps = sorted(folder.glob(f"*{_WORLD}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    total = sum(file.stat().st_size for file in dumps)
    while dumps and (len(dumps) >= MOST_DUMPS or total + size > MOST_BYTES):
        oldest = dumps.pop(0)
        total -= oldest.stat().st_size
        oldest.unlink(missing_ok=True)
        oldest.with_name(oldest.name.removesuffix(_WORLD) + _PLAN).unlink(missing_ok=True)


def _write(file: Path, content: bytes) -> None:
    """Write a new file; never through a link that another user has put there."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)


def objects(snapshot: Snapshot, circumstances: replay.CycleContext | None = None) -> list[dict[str, Any]]:
    """Return the objects of a snapshot as the API server shows them, after the cycle with its pending changes."""
    known = snapshot.claim_tables
    items: Iterable[Any] = chain(
        snapshot.namespaces.values(),
        snapshot.priority_classes.values(),
        snapshot.queues.objects,
        snapshot.jobs.groups,
        snapshot.declared,
        snapshot.numa.values(),
        snapshot.quotas,
        snapshot.budgets,
        known.claims.values(),
        known.volumes.values(),
        known.classes.values(),
        known.csi_nodes.values(),
        known.csi_drivers.values(),
        known.capacities.values(),
        known.device_claims.values(),
        known.offers.slices.values(),
        known.offers.classes.values(),
        (_node(snapshot, row) for row in range(len(snapshot.nodes))),
        snapshot.tasks.pods,
    )
    return [replay.entry(snapshot, circumstances), *(_entry(item) for item in items if item is not None)]


def _node(snapshot: Snapshot, row: int) -> core.Node:
    """Return a node with the allocatable resources of the snapshot."""
    node = snapshot.nodes.traits.objects[row]
    units = snapshot.nodes.allocatable.values[:, row].tolist()
    allocatable = quantity.texts(
        {name: amount for name, amount in zip(snapshot.axis.names, units, strict=True) if amount}
    )
    return replace(node, status=replace(node.status, allocatable=dict(allocatable)))


_KINDS = {kind.type: kind for kind in (*REQUIRED, *OPTIONAL)}


def _entry(item: Any) -> dict[str, Any]:
    # Objects of another API have volcanopy's names, so that the file is complete without that API.
    kind = _KINDS[type(item)]
    body: dict[str, Any] = msgspec.to_builtins(item)
    return {"apiVersion": kind.api_version, "kind": kind.kind} | body | {"apiVersion": kind.api_version}
