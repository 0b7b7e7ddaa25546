"""What a container runs: its command, environment and mounts, resolved from the pod, ConfigMaps and Secrets. Pure."""

import base64
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from volcanopy.api import quantity
from volcanopy.kube.client.kinds import Json

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path of a container whose image is ignored."""
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]+)\)")


class ContainerConfigError(ValueError):
    """A container that cannot be created from its specification; the kubelet's reason is CreateContainerConfigError."""


@dataclass(frozen=True)
class Sources:
    """ConfigMaps and Secrets of the pod's namespace by name, and tokens, as they are when the container is created."""

    config_maps: Mapping[str, Json] = field(default_factory=dict)
    secrets: Mapping[str, Json] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Tokens of the pod's service account by audience; that for the API server has none."""

    def config_map(self, name: str, *, optional: bool) -> dict[str, bytes]:
        """The data of a ConfigMap; raises ContainerConfigError if it is missing and not optional."""
        config_map = self.config_maps.get(name)
        if config_map is None:
            if optional:
                return {}
            raise ContainerConfigError(f'configmap "{name}" not found')
        data = {key: text.encode() for key, text in (config_map.get("data") or {}).items()}
        return data | {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}

    def secret(self, name: str, *, optional: bool) -> dict[str, bytes]:
        """The data of a Secret; raises ContainerConfigError if it is missing and not optional."""
        secret = self.secrets.get(name)
        if secret is None:
            if optional:
                return {}
            raise ContainerConfigError(f'secret "{name}" not found')
        return {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}


@dataclass(frozen=True)
class Mount:
    """A volume in a container: name of the volume, path in the container, path within the volume."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """A container that is ready to run: `command` replaces the entry point of its image, `arguments` the command of its image."""

    name: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    mounts: tuple[Mount, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """What runs where images are ignored; empty where neither command nor args are given."""
        return self.command + self.arguments


def resolve(
    pod: Json, container: Json, sources: Sources, variables: Mapping[str, str] = MappingProxyType({})
) -> ContainerSpec:
    """The container with environment and references resolved, as the kubelet does.

    `pod` has `status.podIP` and `status.hostIP`; `variables` are variables that every container has. Raises ContainerConfigError.
    """
    environment = _environment(pod, container, sources, variables)
    command = tuple(_expanded(text, environment) for text in container.get("command") or ())
    arguments = tuple(_expanded(text, environment) for text in container.get("args") or ())
    mounts = tuple(
        Mount(
            mount["name"],
            _mount_path(mount["mountPath"]),
            _expanded(mount["subPathExpr"], environment) if mount.get("subPathExpr") else mount.get("subPath", ""),
            bool(mount.get("readOnly")),
        )
        for mount in container.get("volumeMounts") or ()
    )
    directory = _absolute(container["workingDir"]) if container.get("workingDir") else ""
    return ContainerSpec(container["name"], command, arguments, environment, directory, mounts)


def _mount_path(path: str) -> str:
    """The absolute path of a mount. Raises ContainerConfigError."""
    if (absolute := _absolute(path)) == "/":
        raise ContainerConfigError(f"mountPath {path!r}: a volume cannot be mounted on the root of a container")
    return absolute


def _absolute(path: str) -> str:
    """The path from the root, without `..`."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def referenced(pod: Json) -> tuple[set[str], set[str]]:
    """The names of the ConfigMaps and of the Secrets that the containers and volumes of a pod use."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for source in container.get("envFrom") or ():
            config_maps |= _name_of(source.get("configMapRef"), "name")
            secrets |= _name_of(source.get("secretRef"), "name")
        for variable in container.get("env") or ():
            value = variable.get("valueFrom") or {}
            config_maps |= _name_of(value.get("configMapKeyRef"), "name")
            secrets |= _name_of(value.get("secretKeyRef"), "name")
    for volume in spec.get("volumes") or ():
        config_maps |= _name_of(volume.get("configMap"), "name")
        secrets |= _name_of(volume.get("secret"), "secretName")
        for source in (volume.get("projected") or {}).get("sources") or ():
            config_maps |= _name_of(source.get("configMap"), "name")
            secrets |= _name_of(source.get("secret"), "name")
    return config_maps, secrets


def _name_of(reference: Json | None, key: str) -> set[str]:
    return {reference[key]} if reference and reference.get(key) else set()


def _environment(pod: Json, container: Json, sources: Sources, variables: Mapping[str, str]) -> dict[str, str]:
    environment = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"], **variables}
    for source in container.get("envFrom") or ():
        for key, content in _data_of(source, sources).items():
            environment[source.get("prefix", "") + key] = content.decode(errors="replace")
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _value_from(pod, container, variable["valueFrom"], sources)
            if value is not None:
                environment[variable["name"]] = value
        else:
            environment[variable["name"]] = _expanded(variable.get("value", ""), environment)
    return environment


def _data_of(source: Json, sources: Sources) -> dict[str, bytes]:
    if reference := source.get("configMapRef"):
        return sources.config_map(reference["name"], optional=bool(reference.get("optional")))
    reference = source["secretRef"]
    return sources.secret(reference["name"], optional=bool(reference.get("optional")))


def _value_from(pod: Json, container: Json, source: Json, sources: Sources) -> str | None:
    """The value, or None for an optional key that does not exist."""
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container, reference)
    if reference := source.get("configMapKeyRef"):
        kind, data = "configmap", sources.config_map(reference["name"], optional=bool(reference.get("optional")))
    elif reference := source.get("secretKeyRef"):
        kind, data = "secret", sources.secret(reference["name"], optional=bool(reference.get("optional")))
    else:
        raise ContainerConfigError(f"env source {', '.join(source)} is not supported")
    if reference["key"] in data:
        return data[reference["key"]].decode(errors="replace")
    if reference.get("optional"):
        return None
    name = f"{pod['metadata'].get('namespace', 'default')}/{reference['name']}"
    raise ContainerConfigError(f"couldn't find key {reference['key']} in {kind} {name}")


def field_value(pod: Json, path: str) -> str:
    """The field of a pod that the downward API serves under this path. Raises ContainerConfigError."""
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if keyed is not None:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        entries: Mapping[str, str] = pod["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(entries.items()))
    value: Any = pod
    for part in path.split("."):
        if part == "podIPs":
            return str(pod["status"]["podIP"])
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None and path not in {"spec.serviceAccountName", "metadata.namespace"}:
        raise ContainerConfigError(f"fieldPath {path} is not supported")
    return str(value if value is not None else "default")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def resource_value(pod: Json, container: Json, reference: Json) -> str:
    """A request or limit of a container in units of the divisor, rounded up. Raises ContainerConfigError."""
    if name := reference.get("containerName"):
        container = next((candidate for candidate in pod["spec"]["containers"] if candidate["name"] == name), container)
    section, _, resource = reference["resource"].partition(".")
    amounts: Mapping[str, str] = (container.get("resources") or {}).get(section) or {}
    if resource not in amounts:
        raise ContainerConfigError(f"container {container['name']} has no {reference['resource']}")
    divisor = quantity.parse(str(reference.get("divisor") or "1")) or 1
    return str(math.ceil(quantity.parse(str(amounts[resource])) / divisor))


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """The text with `$(NAME)` replaced by the variable, `$$` by `$`; unknown names stay as they are."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def containers_of(pod: Json) -> Iterator[Json]:
    """The init containers, then the containers."""
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"]["containers"]


def is_sidecar(container: Json) -> bool:
    """Whether an init container runs beside the others."""
    return container.get("restartPolicy") == "Always"


def selected_items(data: Mapping[str, bytes], items: Sequence[Json] | None, source: str) -> dict[str, bytes]:
    """The files of a volume by path: all keys, or those listed in `items`. Raises ContainerConfigError."""
    if not items:
        return dict(data)
    missing = [item["key"] for item in items if item["key"] not in data]
    if missing:
        raise ContainerConfigError(f"references non-existent key {missing[0]} of {source}")
    return {item["path"]: data[item["key"]] for item in items}
