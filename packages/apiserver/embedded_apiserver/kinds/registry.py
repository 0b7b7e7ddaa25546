"""Which kinds are served right now, built in or added by CustomResourceDefinitions; and where a path leads."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from embedded_apiserver.kinds.kinds import Kind

_ORDER = ("", "apps", "batch", "scheduling.k8s.io")


@dataclass(slots=True)
class Target:
    """What a path names: a collection (no name), an object, or a subresource of one."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as clients should prefer them: v2, v1, v1beta2, v1alpha1, then anything else by name."""
    for stage, mark in enumerate(("", "beta", "alpha")):
        head, _, tail = version[1:].partition(mark) if mark else (version[1:], "", "")
        if version[:1] == "v" and head.isdigit() and (not mark or tail.isdigit()):
            return (stage, -int(head), -int(tail or 0), "")
    return (3, 0, 0, version)


class Registry:
    """Kinds by path and by name. `revision` changes with every kind that comes or goes."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._short: dict[str, Kind] = {}
        self.revision = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve this kind, in place of one with the same group, version and plural."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind
        self.revision += 1

    def remove(self, kind: Kind) -> None:
        """Serve it no more."""
        if self._by_path.get((kind.group, kind.version, kind.plural)) is kind:
            del self._by_path[kind.group, kind.version, kind.plural]
            self._by_kind.pop((kind.api_version, kind.kind), None)
            self.revision += 1

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind `/apis/{group}/{version}/{plural}`."""
        return self._by_path.get((group, version, plural))

    def named(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object's apiVersion and kind speak of."""
        return self._by_kind.get((api_version, kind))

    def of_bucket(self, bucket: str) -> Kind | None:
        """The kind in whose form the bucket's objects are stored."""
        preferred: Kind | None = None
        for kind in self._by_path.values():
            if kind.bucket == bucket:
                if kind.api_version == kind.stored_version:
                    return kind
                preferred = preferred or kind
        return preferred

    def groups(self) -> dict[str, list[str]]:
        """Groups and their versions, the preferred one first; the core group is ""."""
        versions: dict[str, set[str]] = {}
        for kind in self._by_path.values():
            versions.setdefault(kind.group, set()).add(kind.version)
        known = [group for group in _ORDER if group in versions]
        names = [*known, *(group for group in versions if group not in known)]
        return {group: sorted(versions[group], key=version_rank) for group in names}

    def of_version(self, group: str, version: str) -> list[Kind]:
        """The kinds of one group version."""
        return [kind for kind in self._by_path.values() if kind.group == group and kind.version == version]

    def has_version(self, path: str) -> bool:
        """The path lies below a group version that is served."""
        parts = path.split("/")
        group, version = ("", parts[2:3]) if parts[1:2] == ["api"] else ("".join(parts[2:3]), parts[3:4])
        return bool(version) and any(
            kind.group == group and kind.version == version[0] for kind in self._by_path.values()
        )

    def locate(self, path: str) -> Target | None:
        """What the path names, or None if nothing is served there."""
        parts = path.split("/")
        if 6 <= len(parts) <= 8 and parts[3] == "namespaces" and parts[1] == "api" and parts[-1] and "%" not in path:
            # The busiest paths, those of namespaced core objects, in one look.
            kind = self._by_path.get(("", parts[2], parts[5]))
            if kind is not None and kind.namespaced and parts[4]:
                name, subresource = (*parts[6:], "", "")[:2]
                return Target(kind, parts[4], name, subresource)
        if len(parts) > 3 and parts[1] == "api":
            group, version, rest = "", parts[2], parts[3:]
        elif len(parts) > 4 and parts[1] == "apis":
            group, version, rest = parts[2], parts[3], parts[4:]
        else:
            return None
        if "%" in path:
            rest = [unquote(part) for part in rest]
        namespace = ""
        if (
            rest[0] == "namespaces"
            and len(rest) > 2
            and not (group == "" and rest[2] in {"status", "finalize"} and len(rest) == 3)
        ):
            namespace, rest = rest[1], rest[2:]
        if not rest[-1]:
            rest = rest[:-1]
        if not rest or len(rest) > 3:
            return None
        kind = self._by_path.get((group, version, rest[0]))
        if kind is None or (namespace and not kind.namespaced):
            return None
        name = rest[1] if len(rest) > 1 else ""
        if name and kind.namespaced and not namespace:
            return None
        return Target(kind, namespace, name, rest[2] if len(rest) > 2 else "")
