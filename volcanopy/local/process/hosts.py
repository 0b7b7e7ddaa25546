"""Addresses of pods on the loopback network, and the hosts files through which pods of a namespace find each other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_DOMAIN = "svc.cluster.local"
_FIRST = (127 << 24) + (1 << 16)
_LAST = (127 << 24) + (255 << 16)
HOST_ADDRESS = "127.0.0.1"


class Entry(NamedTuple):
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


def hosts_text(entries: Iterable[Entry]) -> str:
    """The hosts file of a namespace: `hostname.subdomain` in all its forms, host names, and every subdomain's pods."""
    lines = [f"{HOST_ADDRESS}\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    for entry in sorted(entries, key=lambda entry: entry.name):
        names = [entry.hostname] if entry.hostname == entry.name else [entry.hostname, entry.name]
        if entry.subdomain:
            full = f"{entry.subdomain}.{entry.namespace}.{_DOMAIN}"
            short = (
                f"{entry.subdomain}.{entry.namespace}.svc",
                f"{entry.subdomain}.{entry.namespace}",
                entry.subdomain,
            )
            names = [f"{entry.hostname}.{domain}" for domain in (full, *short)] + names + [full, *short]
        lines.append(f"{entry.address}\t{' '.join(names)}")
    return "\n".join(lines) + "\n"


class HostsFiles:
    """A hosts file for every namespace, rewritten in place when a pod comes or goes, so that bind mounts follow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, Entry] = {}

    def path(self, namespace: str) -> Path:
        """The file of a namespace; it exists."""
        path = self._folder / namespace
        if not path.exists():
            self._write(namespace)
        return path

    def add(self, uid: str, entry: Entry) -> None:
        """Add the pod with this uid."""
        self._entries[uid] = entry
        self._write(entry.namespace)

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._write(entry.namespace)

    def _write(self, namespace: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        text = hosts_text(entry for entry in self._entries.values() if entry.namespace == namespace)
        (self._folder / namespace).write_text(text, encoding="utf-8")
