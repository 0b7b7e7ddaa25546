"""Small kinds for these tests: a slice with the least that a kind must have, a strict one, and whole objects."""

from typing import Any

from msgspec import Struct, field

from volcanopy.kube.client.kinds import Kind


class ThingMeta(Struct, rename="camel", frozen=True, kw_only=True):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}


class ThingSpec(Struct, rename="camel", frozen=True, omit_defaults=True):
    node_name: str = ""
    size: int = 0


class Thing(Struct, frozen=True):
    metadata: ThingMeta
    spec: ThingSpec = field(default_factory=ThingSpec)


PODS: Kind[Thing] = Kind("", "v1", "Pod", "pods", True, Thing)
NODES: Kind[Thing] = Kind("", "v1", "Node", "nodes", False, Thing)
RAW_PODS: Kind[dict[str, Any]] = PODS.raw
