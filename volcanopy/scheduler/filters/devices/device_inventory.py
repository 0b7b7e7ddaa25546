"""The devices of the cluster as claims see them: which there are, from which nodes they can be used, and which suit a request.

All of it follows from resource slices, device classes and the nodes' labels; it is reckoned once for as long as those hold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volcanopy.api import devices
from volcanopy.api.core import NodeSelector
from volcanopy.scheduler.filters.devices.cel_expressions import expression
from volcanopy.scheduler.filters.traits import node_affinity
from volcanopy.scheduler.model.claim_tables import DeviceId, Offers
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.snapshot import NodeTraits

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, eq=False)
class Item:
    """One device. ``node`` names the one node that it belongs to; without it ``selector`` says where it can be used."""

    id: DeviceId
    traits: devices.BasicDevice
    node: str = ""
    selector: NodeSelector | None = None
    whole: bool = True
    """Whether all slices of its pool are known."""

    def attribute(self, name: str) -> object:
        """The value of an attribute, None without it: a name without a domain is of the driver's."""
        said = self.traits.attributes.get(name)
        if said is None:
            domain, _, short = name.rpartition("/")
            if domain == self.id[0]:
                said = self.traits.attributes.get(short)
            elif not domain:
                said = self.traits.attributes.get(f"{self.id[0]}/{name}")
        return None if said is None else next(iter(said.items()), None)


@dataclass(frozen=True)
class Suitable:
    """The devices that suit a request, in order; or why that cannot be said."""

    items: tuple[Item, ...] = ()
    fault: str = ""


@dataclass(eq=False)
class Inventory:
    """All devices that can be handed out."""

    offers: Offers
    traits: NodeTraits
    local: dict[str, list[Item]] = field(default_factory=dict)
    """By node: the devices that belong to it."""
    wide: list[tuple[Item, Mask | None]] = field(default_factory=list)
    """Devices that several nodes can use, with those nodes; None for all."""
    _suitable: dict[bytes, dict[str, Suitable]] = field(default_factory=dict)

    def on(self, node: str, row: int) -> Iterator[Item]:
        """The devices that can be used from a node, in the order of pools and slices."""
        yield from self.local.get(node, ())
        for item, where in self.wide:
            if where is None or where[row]:
                yield item

    def suitable(self, node: str, row: int, request: devices.ExactRequest) -> Suitable:
        """Which of a node's devices suit a request."""
        key = _ENCODE((request.device_class_name, request.selectors, request.tolerations))
        by_node = self._suitable.setdefault(key, {})
        known = by_node.get(node)
        if known is None:
            known = by_node[node] = self._judge(self.on(node, row), request)
        return known

    def _judge(self, items: Iterable[Item], request: devices.ExactRequest) -> Suitable:
        kind = self.offers.classes.get(request.device_class_name)
        if kind is None:
            return Suitable(fault=f"device class {request.device_class_name} does not exist")
        texts = [one.cel.expression for one in (*kind.spec.selectors, *request.selectors) if one.cel is not None]
        result = []
        for item in items:
            for text in texts:
                verdict = expression(text).judge(item.id[0], item.traits)
                if verdict.fault:
                    return Suitable(fault=f"CEL expression {text!r} fails on device {item.id[2]}: {verdict.fault}")
                if not verdict.holds:
                    break
            else:
                if _bears(request.tolerations, item.traits.taints):
                    result.append(item)
        return Suitable(tuple(result))

    @property
    def is_local(self) -> bool:
        """Whether every device belongs to one node."""
        return not self.wide


def take_stock(offers: Offers, traits: NodeTraits) -> Inventory:
    """The inventory of these offers on these nodes; the same one as long as both hold."""
    known = offers.memo.get("inventory")
    if isinstance(known, Inventory) and known.traits is traits:
        return known
    made = Inventory(offers, traits)
    for item in _items(offers):
        if item.node:
            made.local.setdefault(item.node, []).append(item)
        elif item.selector is None:
            made.wide.append((item, None))
        else:
            made.wide.append((item, node_affinity.any_term(item.selector.node_selector_terms, traits)))
    offers.memo["inventory"] = made
    return made


def _items(offers: Offers) -> Iterator[Item]:
    """The devices of the newest generation of every pool; one whose name two slices use is nobody's.

    Devices that share counters with others are left out: what one of them leaves of the rest is not reckoned here.
    """
    pools: dict[tuple[str, str], list[devices.ResourceSlice]] = {}
    for _, one in sorted(offers.slices.items()):
        pools.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
    for (driver, pool), slices in sorted(pools.items()):
        newest = max(one.spec.pool.generation for one in slices)
        current = [one for one in slices if one.spec.pool.generation == newest]
        whole = len(current) == current[0].spec.pool.resource_slice_count
        names = [device.name for one in current for device in one.spec.devices]
        if len(set(names)) != len(names):
            continue
        for one in current:
            for device in one.spec.devices:
                traits = device.traits
                if not traits.consumes_counters:
                    node, selector = _place(one.spec, traits)
                    yield Item((driver, pool, device.name), traits, node, selector, whole)


def _place(spec: devices.ResourceSliceSpec, device: devices.BasicDevice) -> tuple[str, NodeSelector | None]:
    where = device if spec.per_device_node_selection else spec
    return where.node_name or "", None if where.all_nodes else where.node_selector


def _bears(tolerations: tuple[devices.DeviceToleration, ...], taints: tuple[devices.DeviceTaint, ...]) -> bool:
    return all(
        taint.effect not in {"NoSchedule", "NoExecute"} or any(_tolerates(one, taint) for one in tolerations)
        for taint in taints
    )


def _tolerates(toleration: devices.DeviceToleration, taint: devices.DeviceTaint) -> bool:
    if toleration.effect not in {"", taint.effect}:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return toleration.key == taint.key and toleration.value == taint.value


def reach(items: Iterable[Item], inventory: Inventory) -> Mask | None:
    """(N,): the nodes from which all of these devices can be used; None for all."""
    mask: Mask | None = None
    for item in items:
        if item.node:
            where = np.array([node.metadata.name == item.node for node in inventory.traits.objects], dtype=np.bool_)
        elif item.selector is not None:
            where = node_affinity.any_term(item.selector.node_selector_terms, inventory.traits)
        else:
            continue
        mask = where if mask is None else mask & where
    return mask
