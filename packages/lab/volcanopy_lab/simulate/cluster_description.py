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

from msgspec.structs import replace

from volcanopy.api import core, names, quantity
from volcanopy.api.model import Json
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.whatif import kinds
from volcanopy.whatif.admission import problems_of_new
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.kinds import ManifestError
from volcanopy_lab.simulate.workload import WorkloadError

_QUEUE = kinds.BY_NAME["Queue"]
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
    owners: dict[str, int] = {}
    for number, entry in enumerate(nodes):
        for node in _nodes(entry, number):
            name = node.metadata.name
            if name in owners:
                raise WorkloadError(
                    f"nodes[{number}].name: nodes[{owners[name]}] has a node {name!r}, too: give another name"
                )
            owners[name] = number
            result.append(node)
    result += _reviewed(_queues(content.get("queues") or {}), result)
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
        negative = [name for name, units in quantity.amounts(amounts).items() if units < 0]
    except quantity.QuantityError as error:
        raise WorkloadError(f"{field}.allocatable: {error}") from None
    if negative:
        raise WorkloadError(f"{field}.allocatable.{negative[0]} must not be negative: {amounts[negative[0]]}")
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


def _queues(entries: Any) -> dict[str, Json]:
    """Return manifests of kind Queue by the field that has them."""
    if isinstance(entries, list):
        manifests = {f"queues[{number}]": entry for number, entry in enumerate(entries)}
    elif isinstance(entries, dict):
        manifests = {
            f"queues.{name}": {"metadata": {"name": str(name)}, "spec": spec} for name, spec in entries.items()
        }
    else:
        raise WorkloadError("queues must be a mapping from names to specs, or a list of manifests of kind Queue")
    result: dict[str, Json] = {}
    for field, body in manifests.items():
        if not isinstance(body, dict):
            raise WorkloadError(f"{field} must be a mapping")
        if body.get("kind", _QUEUE.kind) != _QUEUE.kind:
            raise WorkloadError(f"{field}.kind must be {_QUEUE.kind}, not {body['kind']!r}")
        whole = {"apiVersion": _QUEUE.api_version, "kind": _QUEUE.kind, **body, "spec": body.get("spec") or {}}
        result[field] = whole
    return result


def _reviewed(manifests: Mapping[str, Json], objects: Sequence[Object]) -> list[core.Queue]:
    """Return the queues of manifests, by field, once admission has reviewed them. Raises WorkloadError."""
    read: dict[str, core.Queue] = {field: _read(_QUEUE.kind, body, field) for field, body in manifests.items()}
    cluster = Cluster(objects)
    fields: dict[tuple[str, str], str] = {}
    for field, queue in read.items():
        key = (_QUEUE.kind, queue.metadata.name)
        if key in fields:
            raise WorkloadError(f"{field}: {fields[key]} has the same name {key[1]!r}")
        fields[key] = field
        cluster.put(queue, manifests[field])
    for key, problems in problems_of_new(cluster, fields).items():
        raise WorkloadError(f"{fields[key]}: {'; '.join(problems)}")
    return [replace(queue, metadata=replace(queue.metadata, uid=queue.metadata.name)) for queue in read.values()]


def _read(kind: str, body: Any, field: str) -> Any:
    if not isinstance(body, dict):
        raise WorkloadError(f"{field} must be a mapping")
    try:
        return kinds.read(body, kinds.BY_NAME[kind])
    except ManifestError as error:
        raise WorkloadError(f"{field}: {error}") from None
