"""Validation of a pod's volumes, and of the mounts and devices of its containers."""

from collections.abc import Callable, Iterator, Mapping

from embedded_apiserver.field_errors import NOT_FOUND, FieldError
from embedded_apiserver.kinds.pod_container_validation import field_reference_faults, resource_reference_faults
from embedded_apiserver.schema.metadata_validation import (
    duplicate,
    faults_of,
    forbidden_field,
    label_faults,
    missing_fields,
    not_supported,
    required,
    subdomain_faults,
    unsupported,
    wrong,
)
from embedded_apiserver.store.object_store import Body

_HIGHEST_MODE = 0o777
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_PROPAGATIONS, _RECURSIVE = ("Bidirectional", "HostToContainer", "None"), ("Disabled", "Enabled", "IfPossible")


def volume_faults(volumes: list[Body], path: str, sound: dict[str, Body]) -> Iterator[FieldError]:
    """What is wrong with volumes; those without a fault are added to `sound`, which mounts may name."""
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        faults = [*_source_faults(volume, here), *missing_fields(volume, here, "name")]
        faults += faults_of(f"{here}.name", name, label_faults(name)) if name else ()
        if name in sound:
            faults.append(duplicate(f"{here}.name", name))
        if not faults:
            sound[name] = volume
        yield from faults


def _source_faults(volume: Body, path: str) -> Iterator[FieldError]:
    present = [kind for kind in (*_SOURCES, *volume) if kind != "name" and volume.get(kind) is not None]
    for number, kind in enumerate(dict.fromkeys(present)):
        if number:
            yield forbidden_field(f"{path}.{kind}", "may not specify more than 1 volume type")
        elif check := _SOURCES.get(kind):
            yield from check(volume[kind], f"{path}.{kind}")


def _empty_dir_faults(source: Body, path: str) -> Iterator[FieldError]:
    if str(source.get("sizeLimit") or "").startswith("-"):
        yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path_faults(source: Body, path: str) -> Iterator[FieldError]:
    yield from missing_fields(source, path, "path")
    yield from _backstep_faults(source.get("path") or "", f"{path}.path")
    yield from not_supported(f"{path}.type", source.get("type") or "", _HOST_PATHS)


def _nfs_faults(source: Body, path: str) -> Iterator[FieldError]:
    yield from missing_fields(source, path, "server", "path")
    if not (source.get("path") or "").startswith("/"):
        yield wrong(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _csi_faults(source: Body, path: str) -> Iterator[FieldError]:
    yield from missing_fields(source, path, "driver")
    if driver := source.get("driver"):
        yield from faults_of(f"{path}.driver", driver, subdomain_faults(driver.lower()))


def _items_faults(source: Body, path: str, name: str) -> Iterator[FieldError]:
    yield from missing_fields(source, path, name)
    yield from _mode_faults(source, "defaultMode", path)
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        yield from missing_fields(item, here, "key")
        yield from _file_faults(item, here)
        yield from _mode_faults(item, "mode", here)


def _downward_faults(source: Body, path: str) -> Iterator[FieldError]:
    yield from _mode_faults(source, "defaultMode", path)
    for item in source.get("items") or ():
        yield from _file_faults(item, path)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from field_reference_faults(field, f"{path}.fieldRef", _FIELDS)
            if resource is not None:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield wrong(path, "resource", text)
        elif resource is not None:
            yield from resource_reference_faults(resource, f"{path}.resourceFieldRef", in_volume=True)
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")
        yield from _mode_faults(item, "mode", path)


def _projected_faults(source: Body, path: str) -> Iterator[FieldError]:
    yield from _mode_faults(source, "defaultMode", path)
    paths: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (reference := part.get(kind)) is not None:
                yield from _items_faults(reference, f"{here}.{kind}", "name")
                files = reference.get("items") or ()
                yield from _repeated(paths, [(item.get("path"), reference.get("name") or "") for item in files], path)
        if (downward := part.get("downwardAPI")) is not None:
            yield from _downward_faults(downward, f"{here}.downwardAPI")
            items = downward.get("items") or ()
            yield from _repeated(paths, [(item.get("path"), item.get("path")) for item in items], path)
        if (token := part.get("serviceAccountToken")) is not None:
            yield from _file_faults(token, path)
            yield from _lifetime_faults(token, f"{here}.serviceAccountToken")
        if sum(value is not None for value in part.values()) > 1:
            yield forbidden_field(here, "may not specify more than 1 volume type per source")


def _repeated(paths: set[str], files: list[tuple[str | None, str | None]], path: str) -> Iterator[FieldError]:
    """Faults of files that are there already; adds their paths."""
    for file, value in files:
        if not file:
            continue
        if file in paths:
            yield wrong(path, value, "conflicting duplicate paths")
        paths.add(file)


def _lifetime_faults(token: Body, path: str) -> Iterator[FieldError]:
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_TOKEN:
        yield wrong(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _LONGEST_TOKEN:
        yield wrong(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


_SOURCES: Mapping[str, Callable[[Body, str], Iterator[FieldError]]] = {
    "emptyDir": _empty_dir_faults,
    "hostPath": _host_path_faults,
    "secret": lambda source, path: _items_faults(source, path, "secretName"),
    "nfs": _nfs_faults,
    "persistentVolumeClaim": lambda source, path: missing_fields(source, path, "claimName"),
    "downwardAPI": _downward_faults,
    "configMap": lambda source, path: _items_faults(source, path, "name"),
    "projected": _projected_faults,
    "csi": _csi_faults,
    "ephemeral": lambda source, path: missing_fields(source, path, "volumeClaimTemplate"),
}
"""The checks of sources, in the order in which the first is the one that counts."""


def _mode_faults(owner: Body, key: str, path: str) -> Iterator[FieldError]:
    mode = owner.get(key)
    if mode is not None and not 0 <= mode <= _HIGHEST_MODE:
        yield wrong(f"{path}.{key}", mode, _MODE)


def _file_faults(owner: Body, path: str) -> Iterator[FieldError]:
    """What is wrong with the path of a file in a volume."""
    file = owner.get("path")
    if not file:
        yield required(f"{path}.path")
        return
    yield from _descending_faults(file, f"{path}.path")
    if file.startswith("..") and not file.startswith("../"):
        yield wrong(f"{path}.path", file, "must not start with '..'")


def _descending_faults(text: str, path: str) -> Iterator[FieldError]:
    if text.startswith("/"):
        yield wrong(path, text, "must be a relative path")
    yield from _backstep_faults(text, path)


def _backstep_faults(text: str, path: str) -> Iterator[FieldError]:
    if ".." in text.split("/"):
        yield wrong(path, text, "must not contain '..'")


def mount_faults(container: Body, path: str, volumes: Mapping[str, Body]) -> Iterator[FieldError]:
    """What is wrong with the mounts and devices of a container."""
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    points: set[str] = set()
    for index, mount in enumerate(mounts):
        here, name, point = f"{path}.volumeMounts[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        yield from _name_faults(mount, here, volumes)
        yield from missing_fields(mount, here, "mountPath")
        if point in points:
            yield wrong(f"{here}.mountPath", point, "must be unique")
        points.add(point)
        if any(device.get("name") == name for device in devices):
            yield wrong(f"{here}.name", name, "must not already exist in volumeDevices")
        if any(device.get("devicePath") == point for device in devices):
            yield wrong(f"{here}.mountPath", point, "must not already exist as a path in volumeDevices")
        yield from _sub_path_faults(mount, f"{path}.volumeMounts", here)
        yield from _propagation_faults(mount, f"{path}.volumeMounts", container)
    yield from _device_faults(devices, path, volumes, points)


def _name_faults(owner: Body, path: str, volumes: Mapping[str, Body]) -> Iterator[FieldError]:
    yield from missing_fields(owner, path, "name")
    if (name := owner.get("name") or "") not in volumes:
        yield FieldError(f"{path}.name", NOT_FOUND, "", name)


def _sub_path_faults(mount: Body, path: str, here: str) -> Iterator[FieldError]:
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        yield from _descending_faults(sub_path, f"{path}.subPath")
    if expression:
        if sub_path:
            yield wrong(f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        yield from _descending_faults(expression, f"{path}.subPathExpr")


def _propagation_faults(mount: Body, path: str, container: Body) -> Iterator[FieldError]:
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        yield from not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden_field(f"{path}.mountPropagation", text)
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in _RECURSIVE:
        yield unsupported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield forbidden_field(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
    if propagation not in {None, "None"}:
        text = "may only be specified when mountPropagation is None or not specified"
        yield forbidden_field(f"{path}.recursiveReadOnly", text)


def _device_faults(
    devices: list[Body] | tuple[()], path: str, volumes: Mapping[str, Body], points: set[str]
) -> Iterator[FieldError]:
    names: set[str] = set()
    device_paths: set[str] = set()
    for index, device in enumerate(devices):
        here, name, point = f"{path}.volumeDevices[{index}]", device.get("name") or "", device.get("devicePath") or ""
        yield from _name_faults(device, here, volumes)
        if name in volumes and not {"persistentVolumeClaim", "ephemeral"} & set(volumes[name]):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield wrong(f"{here}.name", name, text)
        if name in names:
            yield wrong(f"{here}.name", name, "must be unique")
        yield from missing_fields(device, here, "devicePath")
        if ".." in point.split("/"):
            yield wrong(f"{here}.devicePath", point, "can not contain backsteps ('..')")
        if point in device_paths:
            yield wrong(f"{here}.devicePath", point, "must be unique")
        if point in points:
            yield wrong(f"{here}.devicePath", point, "must not already exist as a path in volumeMounts")
        names.add(name)
        device_paths.add(point)
