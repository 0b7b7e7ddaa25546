"""Addresses of pods on the loopback network, and the hosts files through which pods of a namespace find each other."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.folders import make_folder

_DOMAIN = "svc.cluster.local"
_FIRST = (127 << 24) + (1 << 16)
_LAST = (127 << 24) + (255 << 16)
HOST_ADDRESS = "127.0.0.1"
BLOCK = 256
"""Addresses between the first ones of two clusters: the pods of one that runs long may reach those of another."""


class HostEntry(NamedTuple):
    """A pod with its address and names."""

    address: str
    namespace: str
    name: str
    hostname: str
    subdomain: str


def address_text(number: int) -> str:
    """The loopback address with this number, from 127.1.0.0 on."""
    value = _FIRST + number % (_LAST - _FIRST)
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def address_number(address: str) -> int:
    """The number of such an address; -1 for others."""
    parts = address.split(".")
    if len(parts) != 4 or parts[0] != "127" or not all(part.isdigit() for part in parts):
        return -1
    value = sum(int(part) << shift for part, shift in zip(parts, (24, 16, 8, 0), strict=True))
    return value - _FIRST if value >= _FIRST else -1


def hosts_text(entries: Iterable[HostEntry], services: Mapping[tuple[str, str], Sequence[str]], namespace: str) -> str:
    """The hosts file of a namespace: `hostname.subdomain` in all its forms, host names, every subdomain's pods, and services.

    `services` has the addresses of the pods behind a service by (namespace, name); the short name is for its own namespace.
    """
    lines = [f"{HOST_ADDRESS}\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    for entry in sorted(entries, key=lambda entry: entry.name):
        names = [entry.hostname] if entry.hostname == entry.name else [entry.hostname, entry.name]
        if entry.subdomain:
            domains = _domains(entry.namespace, entry.subdomain)
            names = [f"{entry.hostname}.{domain}" for domain in domains] + names + domains
        lines.append(f"{entry.address}\t{' '.join(names)}")
    for (space, name), addresses in sorted(services.items()):
        domains = _domains(space, name)
        names = domains if space == namespace else domains[:-1]
        lines += [f"{address}\t{' '.join(names)}" for address in addresses]
    return "\n".join(lines) + "\n"


def _domains(namespace: str, service: str) -> list[str]:
    """The names of a service, the longest first, the one for its own namespace last."""
    return [f"{service}.{namespace}.{_DOMAIN}", f"{service}.{namespace}.svc", f"{service}.{namespace}", service]


def service_addresses(service: Json, pods: Iterable[Json]) -> list[str]:
    """The addresses of the ready pods of process nodes behind a service, or of all if it publishes those that are not.

    Pods whose subdomain is the service have their names already.
    """
    spec, metadata = service.get("spec") or {}, service["metadata"]
    selector: Mapping[str, str] = spec.get("selector") or {}
    if not selector:
        return []
    addresses = []
    for pod in pods:
        status, labels = pod.get("status") or {}, pod["metadata"].get("labels") or {}
        if (
            pod["metadata"]["namespace"] == metadata["namespace"]
            and pod["spec"].get("subdomain") != metadata["name"]
            and all(labels.get(key) == value for key, value in selector.items())
            and (spec.get("publishNotReadyAddresses") or _is_ready(status))
            and status.get("phase") not in {"Succeeded", "Failed"}
            and address_number(status.get("podIP", "")) >= 0
        ):
            addresses.append(str(status["podIP"]))
    return sorted(addresses)


def _is_ready(status: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions") or ())


class HostsFiles:
    """A hosts file for every namespace, rewritten in place by :meth:`write`, so that bind mounts follow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, HostEntry] = {}
        self.services: dict[tuple[str, str], list[str]] = {}
        """The addresses behind services, by namespace and name."""
        self._changed: set[str] = set()
        self._written: set[str] = set()

    def path(self, namespace: str) -> Path:
        """The file of a namespace, which the next :meth:`write` creates."""
        if namespace not in self._written:
            self._changed.add(namespace)
        return self._folder / namespace

    def add(self, uid: str, entry: HostEntry) -> None:
        """Add the pod with this uid."""
        self._entries[uid] = entry
        self._changed.add(entry.namespace)

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._changed.add(entry.namespace)

    def set_service(self, namespace: str, name: str, addresses: list[str]) -> None:
        """Set the addresses behind a service; none removes it."""
        if self.services.get((namespace, name), []) == addresses:
            return
        self.services[namespace, name] = addresses
        if not addresses:
            del self.services[namespace, name]
        self._changed |= self._written

    def write(self) -> None:
        """Write the files that have changed."""
        if self._changed:
            make_folder(self._folder)
        for namespace in self._changed:
            entries = [entry for entry in self._entries.values() if entry.namespace == namespace]
            path = self._folder / namespace
            path.write_text(hosts_text(entries, self.services, namespace), encoding="utf-8")
            path.chmod(0o644)
        self._written |= self._changed
        self._changed.clear()
