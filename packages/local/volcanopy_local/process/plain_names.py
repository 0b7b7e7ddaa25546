"""Replaces names of pods and Services by addresses, for programs that have no hosts file of their own.

What a cluster's DNS resolves is replaced: `HOSTNAME.SUBDOMAIN` and `SERVICE` in all their forms. Pods that do not exist yet get
their address when their name is first used. A Service's short name is replaced alone, before a port, or in a URL.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.pod_events import PodEvent

_NAME = re.compile(r"(?<![\w.-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?![\w-])")
_INDEXED = re.compile(r".+-\d+")
"""The host name of a pod that may not exist yet."""
_SUFFIXES = ((), ("svc",), ("svc", "cluster", "local"))


class PlainNames:
    """The names of one namespace: `address` gives the address of a pod by host name, subdomain and namespace."""

    def __init__(
        self,
        namespace: str,
        subdomains: Iterable[tuple[str, str]],
        services: Mapping[tuple[str, str], Sequence[str]],
        address: Callable[[str, str, str], str],
    ) -> None:
        """`subdomains` and `services` are by namespace and name; a service has the addresses of its pods, maybe none yet."""
        self._namespace, self._services, self._address = namespace, services, address
        self._subdomains = frozenset(subdomains)
        self.without_addresses: set[tuple[str, str]] = set()
        """The services of which a name was found that no address could replace."""

    def replaced(self, text: str) -> str:
        """The text with addresses in place of names."""
        return _NAME.sub(lambda match: self._of(match) or match[0], text)

    def _of(self, match: re.Match[str]) -> str:
        """The address of a name; empty for what is none."""
        text, labels = match.string, match[0].split(".")
        before, after = text[: match.start()], text[match.end() :]
        in_url = before.endswith(("//", "@"))
        if before.endswith("/") and not in_url:
            return ""
        if len(labels) > 1 and (pod := self._pod(labels)):
            return pod
        namespace, suffix = (labels[1], labels[2:]) if len(labels) > 1 else (self._namespace, [])
        addresses = self._services.get((namespace, labels[0]))
        if addresses is None or tuple(suffix) not in _SUFFIXES:
            return ""
        is_headless = (namespace, labels[0]) in self._subdomains
        is_host = in_url or re.match(r":\d", after) is not None or (match[0] == text and not is_headless)
        if not suffix and not is_host:
            return ""
        if not addresses:
            self.without_addresses.add((namespace, labels[0]))
        return next(iter(addresses), "")

    def _pod(self, labels: Sequence[str]) -> str:
        host, subdomain, *rest = labels
        namespace, suffix = (rest[0], rest[1:]) if rest else (self._namespace, [])
        if (
            (namespace, subdomain) not in self._subdomains
            or tuple(suffix) not in _SUFFIXES
            or not _INDEXED.fullmatch(host)
        ):
            return ""
        return self._address(host, subdomain, namespace)


def plain_names_of(
    namespace: str,
    services: Iterable[Json],
    reserved: Iterable[tuple[str, str]],
    addresses: Mapping[tuple[str, str], Sequence[str]],
    address: Callable[[str, str, str], str],
) -> PlainNames:
    """The names in a namespace. `reserved` are further subdomains, `addresses` those of the Services that have ready pods."""
    specs = {(service["metadata"]["namespace"], service["metadata"]["name"]): service["spec"] for service in services}
    headless = {place for place, spec in specs.items() if spec.get("clusterIP") == "None"}
    selecting: dict[tuple[str, str], Sequence[str]] = {
        place: () for place, spec in specs.items() if spec.get("selector")
    }
    return PlainNames(namespace, headless | set(reserved), selecting | dict(addresses), address)


def not_resolved(namespace: str, name: str) -> PodEvent:
    """The Event about a Service whose name stays in a text."""
    message = (
        f'Service "{name}" in namespace "{namespace}" has no ready pod: its name has no address yet, and plain processes '
        "cannot resolve it. Create the pod when the Service has a ready pod"
    )
    return PodEvent("Warning", "NameNotResolved", message)
