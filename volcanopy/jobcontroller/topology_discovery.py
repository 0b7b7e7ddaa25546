"""HyperNodes from the labels of nodes, and the configuration file of the controller for that.

The file is that of Volcano's controller: ``networkTopologyDiscovery`` with a list of sources, of which ``label`` exists here. It
has topologies, each with the labels of nodes from the widest domain to ``kubernetes.io/hostname``. A HyperNode is made for each
value of each label but the last; one of tier 1 has nodes as members, one of a higher tier the HyperNodes below it.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from volcanopy.api import names
from volcanopy.api.config_file import ConfigError, read_config
from volcanopy.api.model import Bool, InvalidObjectError, Json, Model

HOSTNAME = "kubernetes.io/hostname"
SOURCE = "label"
"""The only source, and the value of the label of HyperNodes that names their source."""
MOST_MEMBERS = 1024
"""The most members of a HyperNode that its definition allows; more nodes are selected by their label."""
_DIGITS = 16
"""Hexadecimal digits of a name that stand for the value of a label."""

TypeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,18}[A-Za-z0-9])?$")]


class NodeLabel(Model):
    """A label of nodes."""

    node_label: str = Field(min_length=1, max_length=317)
    """Key of the label."""


class LabelSource(Model):
    """What the source ``label`` discovers."""

    network_topology_types: dict[TypeName, list[NodeLabel]] = Field(default_factory=dict)
    """Labels from the widest domain to kubernetes.io/hostname, by the name of the topology."""


class Source(Model):
    """A source of HyperNodes."""

    source: str
    """Name of the source."""
    enabled: Bool = False
    """Whether HyperNodes are discovered from it."""
    interval: Any = None
    """Accepted without effect: labels are watched."""
    credentials: Any = None
    """Accepted without effect: labels need none."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the source."""


class _File(Model):
    network_topology_discovery: list[Source] = Field(default_factory=list, max_length=16)


@dataclass(frozen=True)
class Discovery:
    """Which HyperNodes are made from labels; None where the source is off and they are left alone.

    ``types`` has for each name of a topology the labels of its tiers, the lowest tier first.
    """

    types: Mapping[str, tuple[str, ...]] | None = None


def parse(text: str) -> Discovery:
    """Parse the configuration file of the controller. Raises ConfigError."""
    sources = read_config(_File, text, "networkTopologyDiscovery: []").network_topology_discovery
    types: dict[str, tuple[str, ...]] | None = None
    for index, source in enumerate(sources):
        path = f"networkTopologyDiscovery[{index}]"
        if not source.enabled:
            continue
        if source.source != SOURCE:
            raise ConfigError(
                f'{path}.source: "{source.source}" is not supported: use "{SOURCE}", or set enabled: false'
            )
        types = (types or {}) | _types(f"{path}.config", source.config)
    return Discovery(types)


def _types(path: str, config: Json) -> dict[str, tuple[str, ...]]:
    try:
        given = LabelSource.read(config, unknown="forbid").network_topology_types
    except InvalidObjectError as error:
        raise ConfigError("; ".join(f"{path}.{problem}" for problem in error.problems)) from None
    types = {}
    for name, labels in given.items():
        keys = [label.node_label for label in labels]
        where = f"{path}.networkTopologyTypes.{name}"
        if len(set(keys)) < len(keys):
            raise ConfigError(f"{where}: each label may occur once")
        if not keys or keys[-1] != HOSTNAME:
            raise ConfigError(f"{where}: the last label must be {HOSTNAME}")
        types[name] = tuple(reversed(keys[:-1]))
    return types


@dataclass(frozen=True)
class HyperNodeChanges:
    """The writes after which the HyperNodes are those of the labels. Objects to change are given with their new content."""

    create: tuple[Json, ...] = ()
    change: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()


@dataclass
class _Domain:
    """A value of a label: the nodes or HyperNodes with it."""

    type_name: str
    tier: int
    label: str
    value: str
    members: set[str]


def changes(
    types: Mapping[str, Sequence[str]],
    nodes: Mapping[str, Mapping[str, str]],
    existing: Iterable[Json],
    api_version: str = names.TOPOLOGY_V1ALPHA1,
) -> HyperNodeChanges:
    """Compare the HyperNodes of the labels with the existing ones.

    ``nodes`` are the labels of nodes by name, ``existing`` all HyperNodes. One that was discovered before, also by Volcano, keeps
    its name and API; ``api_version`` is that of new ones.
    """
    discovered = [item for item in existing if _label(item, names.NETWORK_TOPOLOGY_SOURCE) == SOURCE]
    left = {_identity(item): item for item in discovered}
    by_name = {str(item["metadata"]["name"]): item for item in reversed(discovered)}
    create, change = [], []
    for domain, name in _named(_domains(types, nodes), discovered):
        current = by_name.get(name)
        if current is None:
            create.append(_hyper_node(domain, name, api_version))
            continue
        left.pop(_identity(current), None)
        after = _hyper_node(domain, name, current["apiVersion"])
        if not _same(current, after):
            change.append(after)
    return HyperNodeChanges(tuple(create), tuple(change), tuple(left.values()))


def _domains(types: Mapping[str, Sequence[str]], nodes: Mapping[str, Mapping[str, str]]) -> list[_Domain]:
    """Return the domains with the names of nodes as members, the lowest tiers first; of a higher tier with pairs below."""
    domains: dict[tuple[str, int, str], _Domain] = {}
    for type_name in sorted(types):
        for node in sorted(nodes):
            member = node
            for tier, label in enumerate(types[type_name], start=1):
                value = nodes[node].get(label)
                if not value:
                    break
                key = (type_name, tier, value)
                domains.setdefault(key, _Domain(type_name, tier, label, value, set())).members.add(member)
                member = value
    return [domains[key] for key in sorted(domains)]


def _named(domains: Sequence[_Domain], discovered: Sequence[Json]) -> list[tuple[_Domain, str]]:
    """Return the domains with their names; members of higher tiers are replaced by the names of their HyperNodes."""
    labelled: dict[tuple[str, str], list[str]] = {}
    for item in sorted(discovered, key=lambda item: str(item["metadata"]["name"])):
        for label in (item["metadata"].get("labels") or {}).items():
            labelled.setdefault(label, []).append(str(item["metadata"]["name"]))
    by_value: dict[tuple[str, int, str], str] = {}
    result = []
    for domain in domains:  # in the order of tiers
        prefix = f"hypernode-{re.sub('[^a-z0-9.-]', '-', domain.type_name.lower())}-tier{domain.tier}-"
        adopted = (name for name in labelled.get((domain.label, domain.value), ()) if name.startswith(prefix))
        digest = hashlib.sha256(f"{domain.label}={domain.value}".encode()).hexdigest()[:_DIGITS]
        name = next(adopted, f"{prefix}{digest}")
        by_value[domain.type_name, domain.tier, domain.value] = name
        if domain.tier > 1:
            domain.members = {by_value[domain.type_name, domain.tier - 1, value] for value in domain.members}
        result.append((domain, name))
    return result


def _hyper_node(domain: _Domain, name: str, api_version: str) -> Json:
    labels = {names.NETWORK_TOPOLOGY_SOURCE: SOURCE, domain.label: domain.value}
    kind = "Node" if domain.tier == 1 else "HyperNode"
    members = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in sorted(domain.members)]
    if domain.tier == 1 and len(members) > MOST_MEMBERS:
        members = [{"type": kind, "selector": {"labelMatch": {"matchLabels": {domain.label: domain.value}}}}]
    return {
        "apiVersion": api_version,
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels},
        "spec": {"tier": domain.tier, "tierName": domain.label, "members": members},
    }


def _same(existing: Json, after: Json) -> bool:
    """Whether a HyperNode has this content; it may have further labels."""
    labels: Mapping[str, str] = existing["metadata"].get("labels") or {}
    spec: Json = existing.get("spec") or {}
    desired: Mapping[str, str] = after["metadata"]["labels"]
    return desired.items() <= labels.items() and bool(after["spec"] == spec)


def _identity(item: Json) -> tuple[str, str]:
    return item["apiVersion"], item["metadata"]["name"]


def _label(item: Json, key: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(key) or "")
