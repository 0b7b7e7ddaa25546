"""Validation of references to fields of a pod and to resources of a container."""

import re
from collections.abc import Iterator, Sequence

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.quantities import measure
from embedded_apiserver.schema.metadata_validation import (
    faults_of,
    missing_fields,
    not_supported,
    qualified_faults,
    required,
    unsupported,
    wrong,
)
from embedded_apiserver.store.object_store import Body

_CONVERTED = frozenset(
    {"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
    | {f"spec.{key}" for key in ("host", "nodeName", "restartPolicy", "serviceAccountName", "schedulerName")}
    | {f"status.{key}" for key in ("phase", "hostIP", "hostIPs", "podIP", "podIPs")}
)
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]", re.DOTALL)
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_DIVISORS = {
    "cpu": ("1m", "1"),
    "memory": ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
}


def field_reference_faults(reference: Body, path: str, supported: Sequence[str]) -> Iterator[FieldError]:
    """What is wrong with a `fieldRef`; `supported` fields besides single labels and annotations."""
    field, version = reference.get("fieldPath") or "", reference.get("apiVersion") or "v1"
    yield from missing_fields(reference, path, "fieldPath")
    if not field:
        return
    subscript = _SUBSCRIPT.fullmatch(field)
    base = subscript[1] if subscript else field
    if version != "v1" or base not in _CONVERTED:
        problem = f"unsupported pod version: {version}" if version != "v1" else f"field label not supported: {base}"
        yield wrong(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")
    elif subscript is None:
        yield from not_supported(f"{path}.fieldPath", field, supported)
    elif base in {"metadata.annotations", "metadata.labels"}:
        key = subscript[2].lower() if base == "metadata.annotations" else subscript[2]
        yield from faults_of(path, subscript[2], qualified_faults(key))
    else:
        yield wrong(path, base, "does not support subscript")


def resource_reference_faults(reference: Body, path: str, *, in_volume: bool = False) -> Iterator[FieldError]:
    """What is wrong with a `resourceFieldRef`; in a volume it must name a container."""
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        yield required(f"{path}.containerName")
        return
    if not resource:
        yield required(f"{path}.resource")
        return
    name = resource.partition(".")[2]
    if resource not in _RESOURCES and not name.startswith("hugepages-"):
        yield unsupported(f"{path}.resource", resource, _RESOURCES)
        return
    divisor = reference.get("divisor")
    allowed = _DIVISORS["cpu" if name == "cpu" else "memory"]
    if divisor and measure(divisor) not in {0, *map(measure, allowed)}:
        known = "hugepages" if name.startswith("hugepages-") else name
        texts = ", ".join(allowed) if name != "cpu" else " and ".join(allowed)
        yield wrong(
            f"{path}.divisor", resource, f"only divisor's values {texts} are supported with the {known} resource"
        )
