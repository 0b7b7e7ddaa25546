"""The NumaTopology of a node, from the contents of the kernel's and the kubelet's files. Pure: contents in, values out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from volcanopy.api import quantity
from volcanopy.scheduler.nodes.cpus.cpu_assignment import Cpus, format_cpus, members, parse_cpus

DEFAULT_CPU_POLICY, DEFAULT_TOPOLOGY_POLICY = "none", "none"


class ReportError(ValueError):
    """A file has other content than expected; the message names it and what is wrong."""


class CpuLocation(NamedTuple):
    """The NUMA node, the socket and the core of a CPU; a core has the number of its first CPU, as in the kubelet."""

    numa: int
    socket: int
    core: int


@dataclass(frozen=True)
class KubeletSettings:
    """What the kubelet's configuration determines about CPUs."""

    cpu_policy: str = DEFAULT_CPU_POLICY
    topology_policy: str = DEFAULT_TOPOLOGY_POLICY
    reserved: str = "0"
    """The CPUs that are reserved for the system, as a quantity."""


class ContainerCpus(NamedTuple):
    """The exclusive CPUs of a container."""

    namespace: str
    pod: str
    container: str
    cpus: Cpus


@dataclass(frozen=True)
class NodeCpus:
    """The CPUs of a node and who has them."""

    locations: Mapping[int, CpuLocation]
    settings: KubeletSettings = KubeletSettings()
    containers: Sequence[ContainerCpus] = field(default_factory=tuple)


def cpu_list(text: str, file: str) -> Cpus:
    """Parse a list of CPUs such as ``0-3,8``. Raises ReportError."""
    try:
        return parse_cpus(text.strip())
    except ValueError as error:
        raise ReportError(f"{file}: {error}") from None


def number(text: str, file: str) -> int:
    """Parse a number; -1, which the kernel writes where it does not know, is 0. Raises ReportError."""
    try:
        return max(int(text), 0)
    except ValueError:
        raise ReportError(f"{file}: {text.strip()!r} is not a number") from None


def kubelet_settings(text: str, file: str) -> KubeletSettings:
    """Read the policies and the reserved CPUs from the configuration of a kubelet. Raises ReportError."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ReportError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict) or config.get("kind", "KubeletConfiguration") != "KubeletConfiguration":
        raise ReportError(f"{file} is not a KubeletConfiguration")
    return KubeletSettings(
        cpu_policy=str(config.get("cpuManagerPolicy") or DEFAULT_CPU_POLICY),
        topology_policy=str(config.get("topologyManagerPolicy") or DEFAULT_TOPOLOGY_POLICY),
        reserved=_reserved(config, file),
    )


def _reserved(config: Mapping[str, Any], file: str) -> str:
    """Return the reserved CPUs: those that are named, else the sum of what is reserved for kubelet and system."""
    named = config.get("reservedSystemCPUs")
    if named:
        return str(cpu_list(str(named), f"{file}: reservedSystemCPUs").bit_count())
    total = 0
    for key in ("kubeReserved", "systemReserved"):
        try:
            total += quantity.amount("cpu", (config.get(key) or {}).get("cpu", 0))
        except (quantity.QuantityError, AttributeError) as error:
            raise ReportError(f"{file}: {key}: {error}") from None
    return f"{total}m" if total % 1000 else str(total // 1000)


def spec(node: NodeCpus) -> dict[str, Any]:
    """Return the spec of the node's NumaTopology."""
    exclusive = 0
    for entry in node.containers:
        exclusive |= entry.cpus
    everything = sum(1 << cpu for cpu in node.locations)
    return {
        "policies": {
            "CPUManagerPolicy": node.settings.cpu_policy,
            "TopologyManagerPolicy": node.settings.topology_policy,
        },
        "resReserved": {"cpu": node.settings.reserved},
        "numares": {"cpu": {"allocatable": format_cpus(everything & ~exclusive), "capacity": len(node.locations)}},
        "cpuDetail": {
            str(cpu): {"numa": where.numa, "socket": where.socket, "core": where.core}
            for cpu, where in sorted(node.locations.items())
        },
        "podAllocations": _pod_allocations(node.containers),
    }


def _pod_allocations(containers: Sequence[ContainerCpus]) -> list[dict[str, Any]]:
    pods: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in sorted(containers):
        if entry.cpus:
            allocation = {"name": entry.container, "allocations": {"cpu": format_cpus(entry.cpus)}}
            pods.setdefault((entry.namespace, entry.pod), []).append(allocation)
    return [
        {"namespace": namespace, "name": name, "containerAllocations": allocations}
        for (namespace, name), allocations in pods.items()
    ]


def locations(numa: Mapping[int, Cpus], places: Mapping[int, tuple[int, Cpus]]) -> dict[int, CpuLocation]:
    """Return the location of each CPU.

    ``numa`` has the CPUs of each NUMA node, ``places`` the socket of each CPU and the CPUs of its core.
    """
    of_cpu = {cpu: node for node, cpus in numa.items() for cpu in members(cpus)}
    return {
        cpu: CpuLocation(of_cpu.get(cpu, 0), socket, next(members(core), cpu)) for cpu, (socket, core) in places.items()
    }
