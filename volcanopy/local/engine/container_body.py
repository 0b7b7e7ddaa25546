"""What an engine is asked to create for a container of a pod. Pure."""

from dataclasses import dataclass

from volcanopy.kube.client.kinds import Json
from volcanopy.local.process.file_view import MountSource
from volcanopy.local.process.gpus import RESOURCE, VARIABLE
from volcanopy.local.process.limits import limits_of
from volcanopy.local.process.runtime import ContainerRequest

CLUSTER_LABEL = "volcanopy.io/cluster"
"""On every container: the cluster that has started it."""


@dataclass(frozen=True)
class Abilities:
    """What an engine can do here; `user` is that of containers whose pod names none, empty for that of the image."""

    memory: bool = True
    cpu: bool = True
    user: str = ""


def body_of(request: ContainerRequest, image: str, cluster: str, abilities: Abilities) -> Json:
    """The body of the request that creates the container, as Docker's API 1.40 has it."""
    spec, placement, container = request.spec, request.placement, request.container
    metadata, stdin = request.pod["metadata"], bool(container.get("stdin"))
    security = {**(request.pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    body: Json = {
        "Image": image,
        "Env": [f"{name}={value}" for name, value in spec.environment.items()],
        "Hostname": placement.hostname,
        "User": _user(security) or abilities.user,
        "Tty": bool(container.get("tty")),
        "OpenStdin": stdin,
        "StdinOnce": stdin,
        "AttachStdin": stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "Labels": {
            CLUSTER_LABEL: cluster,
            "io.kubernetes.pod.name": metadata["name"],
            "io.kubernetes.pod.namespace": metadata["namespace"],
            "io.kubernetes.pod.uid": metadata["uid"],
            "io.kubernetes.container.name": spec.name,
        },
        "HostConfig": _host_config(request, security, abilities),
    }
    if spec.command:
        body["Entrypoint"] = list(spec.command)
    if spec.arguments:
        body["Cmd"] = list(spec.arguments)
    if spec.working_directory:
        body["WorkingDir"] = spec.working_directory
    return body


def _user(security: Json) -> str:
    """The user and group of a security context, empty without a user."""
    if security.get("runAsUser") is None:
        return ""
    group = security.get("runAsGroup")
    return str(security["runAsUser"]) if group is None else f"{security['runAsUser']}:{group}"


def _host_config(request: ContainerRequest, security: Json, abilities: Abilities) -> Json:
    mounts = {"/etc/hosts": MountSource(request.placement.hosts, read_only=True), **request.placement.mounts}
    limits, capabilities = limits_of(request.container), security.get("capabilities") or {}
    config: Json = {
        "NetworkMode": "host",
        # The output is copied from the stream: the engine keeps no second copy.
        "LogConfig": {"Type": "none"},
        "SecurityOpt": ["label=disable"],
        "Mounts": [
            {"Type": "bind", "Source": str(source.folder), "Target": path, "ReadOnly": source.read_only}
            for path, source in sorted(mounts.items())
        ],
        "Privileged": bool(security.get("privileged")),
        "ReadonlyRootfs": bool(security.get("readOnlyRootFilesystem")),
        "CapAdd": list(capabilities.get("add") or ()),
        "CapDrop": list(capabilities.get("drop") or ()),
    }
    if limits.memory is not None and abilities.memory:
        config |= {"Memory": limits.memory, "MemorySwap": limits.memory}
    if limits.cpu is not None and abilities.cpu:
        config["NanoCpus"] = round(limits.cpu * 1e9)
    devices = request.spec.environment.get(VARIABLE)
    if devices and ((request.container.get("resources") or {}).get("limits") or {}).get(RESOURCE):
        config["DeviceRequests"] = [{"DeviceIDs": devices.split(","), "Capabilities": [["gpu"]]}]
    return config
