"""Validation of what only some containers have: ports, references of variables, probes, hooks and a security context."""

import re
from collections.abc import Iterator, Sequence

from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.quantities import measure
from embedded_apiserver.schema.metadata_validation import (
    duplicate,
    faults_of,
    forbidden_field,
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


_PROTOCOLS, _SCHEMES = ("SCTP", "TCP", "UDP"), ("HTTP", "HTTPS")
_HIGHEST_PORT, _HIGHEST_ID = 65535, 2**31 - 1
_VARIABLE, _KEY = re.compile(r"[ -<>-~]+"), re.compile(r"[-._a-zA-Z0-9]+")
_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_THRESHOLDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def detail_faults(container: Body, path: str) -> Iterator[FieldError]:
    """What is wrong with these parts of a container."""
    yield from _port_faults(container.get("ports") or (), f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable_faults(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _source_faults(source, f"{path}.envFrom", index)
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(kind)) is not None:
            yield from _probe_faults(probe, f"{path}.{kind}", kind)
    for kind, hook in (container.get("lifecycle") or {}).items():
        if kind in {"postStart", "preStop"} and hook is not None:
            yield from _handler_faults(hook, f"{path}.lifecycle.{kind}")
    if context := container.get("securityContext"):
        yield from user_faults(context, f"{path}.securityContext")
        if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield wrong(f"{path}.securityContext", context, text)


def user_faults(context: Body, path: str) -> Iterator[FieldError]:
    """What is wrong with the users and groups of a security context."""
    numbers = [(key, context.get(key)) for key in ("runAsUser", "runAsGroup", "fsGroup")]
    numbers += [
        (f"supplementalGroups[{index}]", gid) for index, gid in enumerate(context.get("supplementalGroups") or ())
    ]
    for key, number in numbers:
        yield from out_of_range(f"{path}.{key}", number, 0, _HIGHEST_ID)


def host_port_faults(containers: list[Body], path: str) -> Iterator[FieldError]:
    """Ports of the node that several ports of containers have."""
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                value = f"{port['protocol']}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if value in taken:
                    yield duplicate(f"{path}[{index}].ports[{number}].hostPort", value)
                taken.add(value)


def _port_faults(ports: list[Body] | tuple[()], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, number, name = f"{path}[{index}]", port.get("containerPort"), port.get("name")
        if name and (texts := _port_name_faults(name)):
            yield from faults_of(f"{here}.name", name, texts)
        elif name and name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name or "")
        yield from missing_fields(port, here, "containerPort")
        yield from out_of_range(f"{here}.containerPort", number or None, 1, _HIGHEST_PORT)
        yield from out_of_range(f"{here}.hostPort", port.get("hostPort") or None, 1, _HIGHEST_PORT)
        yield from not_supported(f"{here}.protocol", port["protocol"], _PROTOCOLS)


def _port_name_faults(name: str) -> list[str]:
    """Why the text is no name of a port."""
    faults = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def _variable_faults(variable: Body, path: str) -> Iterator[FieldError]:
    name, source = variable.get("name"), variable.get("valueFrom")
    yield from missing_fields(variable, path, "name")
    if name and not _VARIABLE.fullmatch(name):
        yield wrong(f"{path}.name", name, _VARIABLE_TEXT)
    if source is None:
        return
    here = f"{path}.valueFrom"
    present = [kind for kind in _SOURCES if source.get(kind) is not None]
    if (field := source.get("fieldRef")) is not None:
        yield from field_reference_faults(field, f"{here}.fieldRef", _FIELDS)
    if (resource := source.get("resourceFieldRef")) is not None:
        yield from resource_reference_faults(resource, f"{here}.resourceFieldRef")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(kind)) is not None:
            yield from _key_faults(reference, f"{here}.{kind}")
    if variable.get("value") and present:
        yield wrong(here, "", "may not be specified when `value` is not empty")
    if len(present) > 1:
        yield wrong(here, "", "may not have more than one field specified at a time")
    if not present:
        texts = ", ".join(f"`{kind}`" for kind in _SOURCES[:-1])
        yield wrong(here, "", f"must specify one of: {texts} or `{_SOURCES[-1]}`")


def _key_faults(reference: Body, path: str) -> Iterator[FieldError]:
    name, key = (reference.get(field) or "" for field in ("name", "key"))
    yield from faults_of(f"{path}.name", name, subdomain_faults(name))
    yield from missing_fields(reference, path, "key")
    if not key:
        return
    if len(key) > 253:
        yield wrong(f"{path}.key", key, "must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        yield wrong(f"{path}.key", key, _KEY_TEXT)
    if key in {".", ".."}:
        yield wrong(f"{path}.key", key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield wrong(f"{path}.key", key, "must not start with '..'")


def _source_faults(source: Body, path: str, index: int) -> Iterator[FieldError]:
    prefix = source.get("prefix")
    if prefix and not _VARIABLE.fullmatch(prefix):
        yield wrong(f"{path}[{index}].prefix", prefix, _VARIABLE_TEXT)
    present = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    for kind in present:
        yield from missing_fields(source[kind], f"{path}[{index}].{kind}", "name")
    if not present:
        yield wrong(path, "", "must specify one of: `configMapRef` or `secretRef`")
    if len(present) > 1:
        yield wrong(path, "", "may not have more than one field specified at a time")


def _probe_faults(probe: Body, path: str, kind: str) -> Iterator[FieldError]:
    yield from _handler_faults(probe, path)
    for key in _THRESHOLDS:
        if (probe.get(key) or 0) < 0:
            yield wrong(f"{path}.{key}", probe[key], "must be greater than or equal to 0")
    if kind != "readinessProbe" and probe.get("successThreshold", 1) not in {None, 1}:
        yield wrong(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _handler_faults(owner: Body, path: str) -> Iterator[FieldError]:
    present = [kind for kind in _HANDLERS if owner.get(kind) is not None]
    if not present:
        yield required(path, "must specify a handler type")
        return
    yield from (forbidden_field(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in present[1:])
    kind = present[0]
    handler, here = owner[kind], f"{path}.{kind}"
    if kind == "exec":
        yield from missing_fields(handler, here, "command")
    if kind in {"httpGet", "tcpSocket", "grpc"}:
        port = handler.get("port") or 0
        if isinstance(port, str):
            yield from faults_of(f"{here}.port", port, _port_name_faults(port))
        else:
            yield from out_of_range(f"{here}.port", port, 1, _HIGHEST_PORT)
    if kind == "httpGet":
        yield from not_supported(f"{here}.scheme", handler.get("scheme", "HTTP"), _SCHEMES)
