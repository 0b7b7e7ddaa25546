"""Failures of simulated nodes: no heartbeats, and what the node controller of a cluster writes about it."""

from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy_local.simulated.heartbeats import Heartbeats
from volcanopy_local.simulated.nodes import NODES, UNREACHABLE, conditions
from volcanopy_local.simulated.pod_status import stamp


async def fail(nodes: Heartbeats, client: Client, name: str, now: float) -> None:
    """Let a node fail: its pods no longer change, and it is tainted as unreachable. Raises NotFound."""
    nodes.stop(name)
    status = {"status": {"conditions": unknown_conditions(now)}}
    try:
        await client.patch_status(NODES, None, name, status, PatchType.STRATEGIC)
        await _set_taints(client, name, unreachable_taints(now))
    except NotFound:
        nodes.failed.discard(name)  # a node that is created with its name is another
        raise


async def restore(nodes: Heartbeats, client: Client, name: str, now: float) -> None:
    """Restore a failed node, as if its connection had been lost. Raises NotFound."""
    try:
        await _set_taints(client, name, [])
        status = {"status": {"conditions": conditions(now, now)}}
        await client.patch_status(NODES, None, name, status, PatchType.STRATEGIC)
    except NotFound:
        nodes.failed.discard(name)
        raise
    nodes.start(name)


async def _set_taints(client: Client, name: str, taints: list[Json]) -> None:
    def change(node: Json) -> Json:
        spec = node.get("spec") or {}
        others = [taint for taint in spec.get("taints") or () if taint["key"] != UNREACHABLE]
        return {**node, "spec": {**spec, "taints": [*others, *taints]}}

    await client.update_with_retry(NODES.raw, None, name, change)


def unknown_conditions(now: float) -> list[Json]:
    """Return the conditions of a node without heartbeats."""
    return [
        {
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": stamp(now),
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]


def unreachable_taints(now: float) -> list[Json]:
    """Return the taints of a node without heartbeats."""
    return [
        {"key": UNREACHABLE, "effect": "NoSchedule", "timeAdded": stamp(now)},
        {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": stamp(now)},
    ]
