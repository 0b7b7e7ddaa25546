"""The kinds that a what-if question reads, and the conversion of manifests into the scheduler's read models and back."""

from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import msgspec

from volcanopy.api import core, names, quantity, topology_read
from volcanopy.api.builtin import devices, policy, storage
from volcanopy.api.decoding import convert
from volcanopy.api.model import Json

_STORAGE = "storage.k8s.io"
_RESOURCE_LISTS = frozenset(
    {"allocatable", "capability", "capacity", "deserved", "hard", "limits", "minResources", "overhead", "requests"}
    | {"resource", "resources", "used"}
)
"""Fields whose mappings have a quantity for each resource, in all kinds."""
_TYPES = {"int": "a whole number", "str": "text", "object": "a mapping", "array": "a list", "bool": "true or false"}


class ManifestError(ValueError):
    """A manifest that cannot be read; the message names the field."""


class KnownKind(NamedTuple):
    """A kind that the scheduler reads. ``model`` is its read model."""

    api_version: str
    kind: str
    namespaced: bool
    model: Any

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]


KINDS: dict[tuple[str, str], KnownKind] = {
    (kind.group, kind.kind): kind
    for kind in (
        KnownKind("v1", "Pod", True, core.Pod),
        KnownKind("v1", "Node", False, core.Node),
        KnownKind("v1", "Namespace", False, core.Namespace),
        KnownKind("v1", "ResourceQuota", True, policy.ResourceQuota),
        KnownKind("policy/v1", "PodDisruptionBudget", True, policy.PodDisruptionBudget),
        KnownKind("scheduling.k8s.io/v1", "PriorityClass", False, core.PriorityClass),
        KnownKind(names.SCHEDULING_V1BETA1, "PodGroup", True, core.PodGroup),
        KnownKind(names.SCHEDULING_V1BETA1, "Queue", False, core.Queue),
        KnownKind(names.TOPOLOGY_V1ALPHA1, "HyperNode", False, topology_read.HyperNode),
        KnownKind(names.NODEINFO_V1ALPHA1, "NumaTopology", False, topology_read.NumaTopology),
        KnownKind("v1", "PersistentVolumeClaim", True, storage.PersistentVolumeClaim),
        KnownKind("v1", "PersistentVolume", False, storage.PersistentVolume),
        KnownKind(f"{_STORAGE}/v1", "StorageClass", False, storage.StorageClass),
        KnownKind(f"{_STORAGE}/v1", "CSINode", False, storage.CSINode),
        KnownKind(f"{_STORAGE}/v1", "CSIDriver", False, storage.CSIDriver),
        KnownKind(f"{_STORAGE}/v1", "CSIStorageCapacity", True, storage.CSIStorageCapacity),
        KnownKind(f"{devices.GROUP}/v1", "ResourceClaim", True, devices.ResourceClaim),
        KnownKind(f"{devices.GROUP}/v1", "ResourceSlice", False, devices.ResourceSlice),
        KnownKind(f"{devices.GROUP}/v1", "DeviceClass", False, devices.DeviceClass),
    )
}
"""The kinds of a scheduler's snapshot, by group and kind."""
BY_MODEL: dict[Any, KnownKind] = {kind.model: kind for kind in KINDS.values()}
BY_NAME: dict[str, KnownKind] = {kind.kind: kind for kind in KINDS.values()}
WORKLOADS: dict[tuple[str, str], bool] = {
    (names.BATCH, "BatchJob"): True,
    (names.BATCH, "CronBatchJob"): True,
    (names.FLOW, "JobFlow"): True,
    (names.FLOW, "JobTemplate"): True,
    (names.BUS, "Command"): True,
    (devices.GROUP, "ResourceClaimTemplate"): True,
    ("node.k8s.io", "RuntimeClass"): False,
}
"""Kinds that controllers and the API server read, and whether they are namespaced."""


def group_of(body: Json) -> str:
    """Return the API group of a manifest, empty for the core group."""
    return str(body.get("apiVersion", "")).rpartition("/")[0]


def key_of(body: Json) -> str:
    """Return ``namespace/name`` of a manifest, or the name if it has no namespace."""
    metadata = body.get("metadata") or {}
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "")
    return f"{namespace}/{name}" if namespace else name


def phase_of(body: Json) -> str:
    """Return the phase of a BatchJob, empty before the job controller has handled it."""
    return str(((body.get("status") or {}).get("state") or {}).get("phase") or "")


def with_namespace(body: Json, namespaced: bool) -> Json:
    """Return the manifest with namespace ``default`` if its kind is namespaced and it has none. Raises ManifestError."""
    metadata = body.get("metadata") or {}
    if not metadata.get("name"):
        raise ManifestError("metadata.name is required")
    if namespaced and not metadata.get("namespace"):
        return {**body, "metadata": {**metadata, "namespace": "default"}}
    return body


def read(body: Json, kind: KnownKind) -> Any:
    """Return the read model of a manifest. Raises ManifestError."""
    _check_numbers({name: field for name, field in body.items() if name != "metadata"}, "")
    try:
        if kind.model is core.Pod:
            body = _with_host_ports(body)
        return convert(with_namespace(body, kind.namespaced), kind.model)
    except msgspec.ValidationError as error:
        raise ManifestError(field_error(str(error))) from None


def _with_host_ports(body: Json) -> Json:
    """Return the manifest of a pod with the host ports that the API server sets if the pod uses the network of its node."""
    spec = body.get("spec")
    if not isinstance(spec, dict) or not spec.get("hostNetwork"):
        return body

    def mappings(value: Any) -> list[Json]:
        return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

    body = deepcopy(body)
    for container in mappings(body["spec"].get("containers")) + mappings(body["spec"].get("initContainers")):
        for port in mappings(container.get("ports")):
            port.setdefault("hostPort", port.get("containerPort", 0))
    return body


def _check_numbers(value: Any, path: str) -> None:
    """Check whole numbers and the quantities of resource lists, which the read models have as texts. Raises ManifestError."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ManifestError(f"{path} must be a whole number of 64 bits")
    for number, item in enumerate(value if isinstance(value, list) else ()):
        _check_numbers(item, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    for name, field in value.items():
        if isinstance(field, str) or name == "attributes":  # those of devices have names of their own
            continue
        where = f"{path}.{name}" if path else str(name)
        if name not in _RESOURCE_LISTS or not isinstance(field, dict):
            _check_numbers(field, where)
            continue
        for resource, amount in field.items():
            text = amount.get("value") if isinstance(amount, dict) else amount  # capacities of devices are mappings
            if not isinstance(text, str):
                _check_numbers({resource: amount}, where)
                continue
            try:
                quantity.parse(text)
            except quantity.QuantityError as error:
                raise ManifestError(f"{where}.{resource}: {error}") from None


def body_of(item: Any) -> Json:
    """Return the manifest of a read model: the fields that the scheduler reads."""
    kind = BY_MODEL[type(item)]
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(item)}


def created(body: Json, now: datetime) -> Json:
    """Return a manifest as the API server stores it: with uid and creation time."""
    metadata = body["metadata"]
    uid = str(uuid5(NAMESPACE_URL, f"whatif/{body['kind']}/{key_of(body)}"))
    return body | {"metadata": {"uid": uid, "creationTimestamp": now.isoformat()} | metadata}


def field_error(error: str) -> str:
    """``Expected `int`, got `str` - at `$.spec.minMember``` as a message that starts with the field."""
    what, _, where = error.partition(" - at ")
    field = where.strip("`").removeprefix("$").removeprefix(".") or "the object"
    if "Expected" in what and "got" in what:
        expected, actual = (part.strip(" `") for part in what.removeprefix("Expected").split(", got", 1))
        expected = expected.replace(" | null", "").replace("`", "")
        expected = " or ".join(_TYPES.get(name.strip(), name.strip()) for name in expected.split("|"))
        return f"{field} must be {expected}, not {_TYPES.get(actual.strip('`'), actual)}"
    return f"{field}: {what[:1].lower()}{what[1:]}"
