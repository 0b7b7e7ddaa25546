"""Validation of a pod's spec, written by hand because thousands of pods a second pass here."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import ip_address

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.pod_affinity_validation import affinity_faults
from embedded_apiserver.kinds.pod_container_validation import detail_faults, host_port_faults, user_faults
from embedded_apiserver.kinds.pod_volume_validation import mount_faults, volume_faults
from embedded_apiserver.quantities import measure
from embedded_apiserver.schema.metadata_validation import (
    duplicate,
    faults_of,
    forbidden_field,
    label_faults,
    label_map_faults,
    missing_fields,
    not_supported,
    out_of_range,
    qualified_faults,
    required,
    subdomain_faults,
    unsupported,
    wrong,
)
from embedded_apiserver.store.object_store import Body

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL = ("Always", "IfNotPresent", "Never")
_MESSAGE = ("File", "FallbackToLogsOnError")
_LOST = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
USUAL_TOLERATIONS = [{"key": f"node.kubernetes.io/{word}", **_LOST} for word in ("not-ready", "unreachable")]
"""Tolerations that admission adds to every pod without its own."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS = ("containers", "initContainers")
_SYSTEMS = ("linux", "windows")
_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NAMES: tuple[tuple[str, Callable[[str], tuple[str, ...]]], ...] = (
    ("nodeName", subdomain_faults),
    ("serviceAccountName", subdomain_faults),
    ("priorityClassName", subdomain_faults),
    ("hostname", label_faults),
    ("subdomain", label_faults),
    ("schedulerName", subdomain_faults),
)


def pod_faults(spec: Body, path: str) -> list[FieldError]:
    """What is wrong with a pod's spec."""
    faults: list[FieldError] = []
    faults += missing_fields(spec, path, "containers")
    seen: set[str] = set()
    volumes: dict[str, Body] = {}
    if spec.get("volumes"):
        faults += volume_faults(spec["volumes"], f"{path}.volumes", volumes)
    for key in _CONTAINERS:
        for index, container in enumerate(spec.get(key) or ()):
            faults += _container_faults(container, f"{path}.{key}[{index}]", seen, volumes)
        if any("ports" in container for container in spec.get(key) or ()):
            faults += host_port_faults(spec[key], f"{path}.{key}")
    faults += not_supported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART)
    faults += not_supported(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS)
    faults += out_of_range(f"{path}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1, 2**31 - 1)
    for key, rule in _NAMES:
        if name := spec.get(key):
            faults += faults_of(f"{path}.{key}", name, rule(name))
    if spec.get("nodeSelector"):
        faults += label_map_faults(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("tolerations") != USUAL_TOLERATIONS:
        faults += _toleration_faults(spec, path)
    if spec.get("affinity"):
        faults += affinity_faults(spec["affinity"], f"{path}.affinity")
    if spec.get("topologySpreadConstraints"):
        faults += _spread_faults(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    if spec.get("securityContext"):
        faults += user_faults(spec["securityContext"], f"{path}.securityContext")
    if spec.get("hostAliases"):
        faults += _alias_faults(spec["hostAliases"], f"{path}.hostAliases")
    if spec.get("os"):
        faults += not_supported(f"{path}.os", spec["os"].get("name") or "", _SYSTEMS)
    if spec.get("schedulingGates"):
        faults += _gate_faults(spec, path)
    return faults


def _container_faults(container: Body, path: str, seen: set[str], volumes: dict[str, Body]) -> Iterator[FieldError]:
    yield from missing_fields(container, path, "name")
    if name := container.get("name"):
        yield from faults_of(f"{path}.name", name, label_faults(name))
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
    yield from missing_fields(container, path, "image")
    if (image := container.get("image")) and image != image.strip():
        yield wrong(f"{path}.image", image, "must not have leading or trailing whitespace")
    for key, allowed in (("imagePullPolicy", _PULL), ("terminationMessagePolicy", _MESSAGE)):
        yield from not_supported(f"{path}.{key}", container[key], allowed)
    if container.get("restartPolicy") not in {None, *_RESTART}:
        yield unsupported(f"{path}.restartPolicy", container["restartPolicy"], sorted(_RESTART))
    yield from mount_faults(container, path, volumes)
    yield from detail_faults(container, path)
    yield from resource_faults(container["resources"], f"{path}.resources")


def resource_faults(resources: Body, path: str) -> Iterator[FieldError]:
    """What is wrong with a container's resources; quantities are known to parse."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name not in _STANDARD:
                yield from _name_faults(name, f"{path}.{key}[{name}]")
            if (type(amount) is not str or amount[:1] == "-") and (measure(amount) or 0) < 0:
                yield wrong(f"{path}.{key}[{name}]", str(amount), "must be greater than or equal to 0")
            if _extended(name) and not _whole(amount):
                yield wrong(f"{path}.{key}[{name}]", str(amount), "must be an integer")
    for name, amount in requests.items():
        if name not in limits:
            if "/" in name and not name.startswith("kubernetes.io/") and _extended(name):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        limit = limits[name]
        if limit == amount:
            continue
        order = _compared(amount, limit)
        if order and _extended(name):
            yield wrong(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
        elif order > 0:
            yield wrong(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")


@lru_cache(maxsize=16384)
def _compared(asked: str | float, allowed: str | float) -> int:
    """1, 0 or -1: the first is more than, as much as or less than the second."""
    first, second = measure(asked), measure(allowed)
    if first is None or second is None or first == second:
        return 0
    return 1 if first > second else -1


@lru_cache(maxsize=4096)
def _whole(amount: str | float) -> bool:
    return (measure(amount) or 0) % 1 == 0


@lru_cache(maxsize=1024)
def _extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


@lru_cache(maxsize=4096)
def _name_faults(name: str, path: str) -> tuple[FieldError, ...]:
    if name in _STANDARD or name.startswith("hugepages-"):
        return ()
    faults = tuple(wrong(path, name, text) for text in qualified_faults(name))
    if not faults and "/" not in name:
        faults = (wrong(path, name, "must be a standard resource type or fully qualified"),)
        return (*faults, wrong(path, name, "must be a standard resource for containers"))
    return faults


def _alias_faults(aliases: list[Body], path: str) -> Iterator[FieldError]:
    for index, alias in enumerate(aliases):
        try:
            ip_address(alias.get("ip") or "")
        except ValueError:
            yield wrong(f"{path}[{index}].ip", alias.get("ip") or "", _ADDRESS)
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from faults_of(f"{path}[{index}].hostnames[{number}]", name, subdomain_faults(name))


def _toleration_faults(spec: Body, path: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        here = f"{path}.tolerations[{index}]"
        key, operator = toleration.get("key"), toleration.get("operator")
        if key:
            yield from faults_of(f"{here}.key", key, qualified_faults(key))
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield wrong(f"{here}.operator", operator or "", text)
        if operator not in {None, "", "Exists", "Equal"}:
            yield unsupported(f"{here}.operator", operator, ("Equal", "Exists"))
        if operator == "Exists" and toleration.get("value"):
            yield wrong(f"{here}.operator", toleration, "value must be empty when `operator` is 'Exists'")
        effect = toleration.get("effect")
        if effect:
            yield from not_supported(f"{here}.effect", effect, _EFFECTS)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield wrong(f"{here}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set")


def _spread_faults(constraints: list[Body], path: str) -> Iterator[FieldError]:
    pairs = [(spread.get("topologyKey") or "", spread.get("whenUnsatisfiable") or "") for spread in constraints]
    for index, (key, action) in enumerate(pairs):
        here, skew = f"{path}[{index}]", constraints[index].get("maxSkew") or 0
        if skew <= 0:
            yield wrong(f"{here}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE:
            yield unsupported(f"{here}.whenUnsatisfiable", action, _UNSATISFIABLE)
        for _ in range(pairs[index + 1 :].count((key, action))):
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")


def _gate_faults(spec: Body, path: str) -> Iterator[FieldError]:
    gates = spec.get("schedulingGates") or ()
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        yield from faults_of(f"{path}.schedulingGates[{index}]", name, qualified_faults(name))
        if name in seen:
            yield duplicate(f"{path}.schedulingGates[{index}]", name)
        seen.add(name)
    if gates and spec.get("nodeName"):
        yield forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
