"""Nodes, the pods on them, and what these request of the allocatable resources."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from volcanopy.api import quantity
from volcanopy.api.core import Node, Pod
from volcanopy.api.names import RUNTIME_LABEL
from volcanopy.cli.framework.documents import print_report
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.framework.tables import plain_table
from volcanopy.cli.jobs.options import ReportFormat
from volcanopy.client.durations import current_time, since
from volcanopy.client.kinds import readable
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import NODES, PODS
from volcanopy.scheduler.cache.shapes import request_of

_ENDED = {"Succeeded", "Failed"}
_MAIN = ("cpu", "memory")


@dataclass(frozen=True)
class NodeUse:
    """A node with the pods on it that have not ended."""

    node: Node
    pods: Sequence[Pod]

    @property
    def state(self) -> str:
        """The state as kubectl prints it."""
        ready = any(item.type == "Ready" and item.status == "True" for item in self.node.status.conditions)
        return ("Ready" if ready else "NotReady") + (",SchedulingDisabled" if self.node.spec.unschedulable else "")

    @property
    def allocatable(self) -> dict[str, int]:
        """Base units by resource."""
        return quantity.amounts(self.node.status.allocatable)

    @property
    def requested(self) -> dict[str, int]:
        """Base units by resource."""
        return quantity.summed(request_of(pod.spec) for pod in self.pods)

    def resources(self) -> list[tuple[str, str, str]]:
        """Name, requested and allocatable amount of each resource."""
        requested, allocatable = self.requested, self.allocatable
        return [
            (name, quantity.shown(name, requested.get(name, 0)), quantity.shown(name, allocatable[name]))
            for name in ordered(allocatable)
        ]


def ordered(names: Iterable[str]) -> list[str]:
    """Return resources in the order of tables: cpu, memory, the others by name."""
    return sorted(names, key=lambda name: (_MAIN.index(name) if name in _MAIN else len(_MAIN), name))


async def node_uses(client: Client) -> list[NodeUse]:
    """Return all nodes by name."""
    pods: dict[str, list[Pod]] = {}
    for pod in readable(Pod, (await client.list(PODS, None, field_selector="spec.nodeName!=")).items):
        if pod.status.phase not in _ENDED:
            pods.setdefault(pod.spec.node_name, []).append(pod)
    nodes = readable(Node, (await client.list(NODES)).items)
    return [
        NodeUse(node, pods.get(node.metadata.name, ())) for node in sorted(nodes, key=lambda node: node.metadata.name)
    ]


async def print_nodes(cluster: ClusterOptions, output: ReportFormat) -> None:
    """Print a line for each node."""
    async with cluster.client() as client:
        uses = await node_uses(client)
    if output is not ReportFormat.table:
        print_report({"kind": "NodeUses", "items": [_document(use) for use in uses]}, output)
        return
    extended = ordered({name for use in uses for name in use.allocatable if "/" in name})
    headings = ("NAME", "STATUS", "RUNTIME", "PODS", "CPU", "MEMORY", *extended, "AGE")
    print(plain_table(headings, [_row(use, extended) for use in uses]))


def _row(use: NodeUse, extended: Sequence[str]) -> list[str]:
    amounts = {name: f"{requested}/{allocatable}" for name, requested, allocatable in use.resources()}
    metadata = use.node.metadata
    return [
        metadata.name,
        use.state,
        metadata.labels.get(RUNTIME_LABEL, "-"),
        amounts.get("pods", str(len(use.pods))),
        *(amounts.get(name, "-") for name in (*_MAIN, *extended)),
        since(metadata.creation_timestamp, current_time()),
    ]


def _document(use: NodeUse) -> Json:
    resources = {
        name: {"requested": requested, "allocatable": allocatable} for name, requested, allocatable in use.resources()
    }
    return {"name": use.node.metadata.name, "status": use.state, "resources": resources}
