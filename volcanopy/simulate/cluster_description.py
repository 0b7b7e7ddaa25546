"""Descriptions of clusters: nodes with counts and queues, in short, or the objects of a snapshot.

.. code-block:: yaml

    nodes:
      - count: 16
        name: gpu                # gpu-000 to gpu-015
        allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
        labels: {zone: a}
    queues:
      research: {weight: 4}      # or a list of manifests of kind Queue
      guests: {weight: 1, capability: {cpu: 100}}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.simulate.workload import WorkloadError
from volcanopy.whatif import kinds
from volcanopy.whatif.kinds import ManifestError

_NODE_FIELDS = ("count", "name", "allocatable", "labels", "annotations", "taints")


def equal_nodes(
    count: int,
    allocatable: Mapping[str, str],
    name: str = "node",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[core.Node]:
    """Return equal nodes with numbers in their names, of 110 pods where no number of pods is given."""
    digits = max(len(str(count - 1)), 1)
    amounts: core.Quantities = {"pods": "110", **allocatable}
    result = []
    for number in range(count):
        own = f"{name}-{number:0{digits}}"
        metadata = core.Meta(
            name=own,
            uid=own,
            labels={"kubernetes.io/hostname": own, **(labels or {})},
            annotations=dict(annotations or {}),
        )
        result.append(core.Node(metadata=metadata, status=core.NodeStatus(capacity=amounts, allocatable=amounts)))
    return result


def queues(weights: Mapping[str, int]) -> list[core.Queue]:
    """Return queues with weights."""
    return [
        core.Queue(metadata=core.Meta(name=name, uid=name), spec=core.QueueSpec(weight=weight))
        for name, weight in weights.items()
    ]


def read_description(content: Any) -> list[Object]:
    """Return the objects of a description. Raises WorkloadError."""
    if not isinstance(content, dict):
        raise WorkloadError("the description of the cluster must be a mapping with nodes and queues")
    unknown = sorted(set(content) - {"nodes", "queues"})
    if unknown:
        raise WorkloadError(f"{unknown[0]}: unknown field of the description of the cluster; known are nodes, queues")
    result: list[Object] = []
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise WorkloadError("nodes: give a list of nodes, each with count and allocatable")
    for number, entry in enumerate(nodes):
        result += _nodes(entry, number)
    result += _queues(content.get("queues") or {})
    return with_default_queue(result)


def with_default_queue(objects: Sequence[Object]) -> list[Object]:
    """Return the objects with the queue ``default``, which every cluster has."""
    known = {item.metadata.name for item in objects if isinstance(item, core.Queue)}
    default = () if names.DEFAULT_QUEUE in known else queues({names.DEFAULT_QUEUE: 1})
    return [*objects, *default]


def _nodes(entry: Any, number: int) -> list[core.Node]:
    field = f"nodes[{number}]"
    if not isinstance(entry, dict):
        raise WorkloadError(f"{field} must be a mapping with {', '.join(_NODE_FIELDS)}")
    unknown = sorted(set(entry) - set(_NODE_FIELDS))
    if unknown:
        raise WorkloadError(f"{field}.{unknown[0]}: unknown field; known are {', '.join(_NODE_FIELDS)}")
    count = entry.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise WorkloadError(f"{field}.count must be a whole number from 1, not {count!r}")
    allocatable = entry.get("allocatable")
    if not isinstance(allocatable, dict) or not allocatable:
        raise WorkloadError(f"{field}.allocatable must be a mapping such as {{cpu: 64, memory: 256Gi}}")
    try:
        amounts = {str(name): str(amount) for name, amount in allocatable.items()}
        quantity.amounts(amounts)
    except quantity.QuantityError as error:
        raise WorkloadError(f"{field}.allocatable: {error}") from None
    name = str(entry.get("name") or (f"node{number}" if number else "node"))
    made = equal_nodes(count, amounts, name, _texts(entry, "labels", field), _texts(entry, "annotations", field))
    if not entry.get("taints"):
        return made
    manifests = [kinds.body_of(node) | {"spec": {"taints": entry["taints"]}} for node in made]
    return [_read("Node", body, f"{field}.taints") for body in manifests]


def _texts(entry: Mapping[str, Any], name: str, field: str) -> dict[str, str]:
    value = entry.get(name) or {}
    if not isinstance(value, dict):
        raise WorkloadError(f"{field}.{name} must be a mapping of texts")
    return {str(key): str(text) for key, text in value.items()}


def _queues(entries: Any) -> list[core.Queue]:
    if isinstance(entries, list):
        return [_read("Queue", entry, f"queues[{number}]") for number, entry in enumerate(entries)]
    if not isinstance(entries, dict):
        raise WorkloadError("queues must be a mapping from names to specs, or a list of manifests of kind Queue")
    return [
        _read("Queue", {"metadata": {"name": str(name), "uid": str(name)}, "spec": spec or {}}, f"queues.{name}")
        for name, spec in entries.items()
    ]


def _read(kind: str, body: Any, field: str) -> Any:
    if not isinstance(body, dict):
        raise WorkloadError(f"{field} must be a mapping")
    try:
        return kinds.read(body, kinds.BY_NAME[kind])
    except ManifestError as error:
        raise WorkloadError(f"{field}: {error}") from None
