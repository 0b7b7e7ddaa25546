"""Inventory of the allocatable devices: the nodes they are available on, and the requests that they match.

It is built from resource slices, device classes and node labels, and kept until one of these changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volcanopy.api import quantity
from volcanopy.api.builtin import devices
from volcanopy.api.core import NodeSelector
from volcanopy.scheduler.model.claim_tables import DeviceId, Offers
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.nodes.devices.cel_expressions import amount_of, expression
from volcanopy.scheduler.nodes.traits import node_affinity, taints

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, eq=False)
class Item:
    """One device. ``node`` is the name of its node; without one, ``selector`` selects the nodes it is available on."""

    id: DeviceId
    traits: devices.BasicDevice
    node: str = ""
    selector: NodeSelector | None = None
    complete: bool = True  # Whether all slices of its pool are known.

    def attribute(self, name: str) -> object:
        """Return the value of an attribute, None if it is not set; a name without a domain is in the driver's domain."""
        value = self._named(self.traits.attributes, name)
        return None if value is None else next(iter(value.items()), None)

    def has(self, capacity: Mapping[str, str]) -> bool:
        """Whether the device has at least these amounts of its capacities."""
        for name, requested in capacity.items():
            value = self._named(self.traits.capacity, name)
            if value is None or quantity.parse(amount_of(value)) < quantity.parse(requested):
                return False
        return True

    def _named(self, values: Mapping[str, Any], name: str) -> Any:
        value = values.get(name)
        if value is None:
            domain, _, short = name.rpartition("/")
            if domain == self.id[0]:
                return values.get(short)
            if not domain:
                return values.get(f"{self.id[0]}/{name}")
        return value


@dataclass(frozen=True)
class Suitable:
    """The devices that match a request, in order, or the error that prevented the evaluation."""

    items: tuple[Item, ...] = ()
    fault: str = ""


def matching_key(request: devices.ExactRequest) -> bytes:
    """Return a key that is equal for requests that the same devices match."""
    return _ENCODE((request.device_class_name, request.selectors, request.tolerations, request.capacity))


class Matching(NamedTuple):
    """The devices of single nodes that match a request."""

    devices: Mask  # (D,).
    failed: Mask  # (N,): the nodes on whose devices the request cannot be evaluated.


@dataclass(eq=False)
class Inventory:
    """All allocatable devices; those that belong to one node and whose pools are complete also as D columns."""

    offers: Offers
    traits: NodeTraits
    local: dict[str, list[Item]] = field(default_factory=dict)  # By node name: the devices of that node.
    shared: list[tuple[Item, Mask | None]] = field(default_factory=list)
    """Devices available on several nodes, with the (N,) mask of these; None for all."""
    _suitable: dict[bytes, dict[str, Suitable]] = field(default_factory=dict)
    _matching: dict[bytes, Matching] = field(default_factory=dict)

    @cached_property
    def items(self) -> Sequence[Item]:
        """(D,): grouped by node."""
        return [item for name in self.traits.rows for item in self.local.get(name, ()) if item.complete]

    @cached_property
    def ids(self) -> Mapping[DeviceId, int]:
        """The numbers of the D devices."""
        return {item.id: number for number, item in enumerate(self.items)}

    @cached_property
    def node(self) -> Rows:
        """(D,): the row of each device's node."""
        return np.array([self.traits.rows[item.node] for item in self.items], dtype=np.intp)

    def matching(self, request: devices.ExactRequest) -> Matching:
        """Return which of the D devices match a request."""
        key = matching_key(request)
        if key not in self._matching:
            # An unknown class is an error on nodes without devices too.
            failed = np.full(len(self.traits.rows), request.device_class_name not in self.offers.classes)
            result = self._matching[key] = Matching(np.zeros(len(self.items), dtype=np.bool_), failed)
            for row in np.unique(self.node).tolist():
                suitable = self.suitable(self.traits.objects[row].metadata.name, row, request)
                failed[row] = bool(suitable.fault)
                result.devices[[self.ids[item.id] for item in suitable.items if item.id in self.ids]] = True
        return self._matching[key]

    def on(self, node: str, row: int) -> Iterator[Item]:
        """Yield the devices available on a node, in the order of pools and slices."""
        yield from self.local.get(node, ())
        for item, where in self.shared:
            if where is None or where[row]:
                yield item

    def suitable(self, node: str, row: int, request: devices.ExactRequest) -> Suitable:
        """Return the devices of a node that match a request."""
        by_node = self._suitable.setdefault(matching_key(request), {})
        known = by_node.get(node)
        if known is None:
            known = by_node[node] = self._evaluate(self.on(node, row), request)
        return known

    def _evaluate(self, items: Iterable[Item], request: devices.ExactRequest) -> Suitable:
        device_class = self.offers.classes.get(request.device_class_name)
        if device_class is None:
            return Suitable(fault=f"device class {request.device_class_name} does not exist")
        selectors = (*device_class.spec.selectors, *request.selectors)
        texts = [selector.cel.expression for selector in selectors if selector.cel is not None]
        result = []
        for item in items:
            for text in texts:
                verdict = expression(text).evaluate(item.id[0], item.traits)
                if verdict.fault:
                    return Suitable(fault=f"CEL expression {text!r} fails on device {item.id[2]}: {verdict.fault}")
                if not verdict.matches:
                    break
            else:
                rejecting = (taint for taint in item.traits.taints if taint.effect in taints.FILTERED_EFFECTS)
                tolerated = all(taints.tolerated(request.tolerations, taint) for taint in rejecting)
                if tolerated and item.has(request.requested_capacity):
                    result.append(item)
        return Suitable(tuple(result))

    @property
    def is_local(self) -> bool:
        """Whether every device belongs to one node."""
        return not self.shared


def build_inventory(offers: Offers, traits: NodeTraits) -> Inventory:
    """Return the inventory of these offers on these nodes; the same object until one of them changes."""
    known = offers.memo.get("inventory")
    if isinstance(known, Inventory) and known.traits is traits:
        return known
    inventory = Inventory(offers, traits)
    for item in _items(offers):
        if item.node:
            inventory.local.setdefault(item.node, []).append(item)
        else:
            inventory.shared.append((item, _nodes_of(item, traits)))
    offers.memo["inventory"] = inventory
    return inventory


def _items(offers: Offers) -> Iterator[Item]:
    """Yield the devices of the newest generation of every pool.

    Omitted are pools with duplicate device names, and, as they are not supported, devices that consume shared counters or
    that a pod may be bound to only after conditions are true.
    """
    pools: dict[tuple[str, str], list[devices.ResourceSlice]] = {}
    for _, resource_slice in sorted(offers.slices.items()):
        pools.setdefault((resource_slice.spec.driver, resource_slice.spec.pool.name), []).append(resource_slice)
    for (driver, pool), slices in sorted(pools.items()):
        newest = max(each.spec.pool.generation for each in slices)
        current = [each.spec for each in slices if each.spec.pool.generation == newest]
        complete = len(current) == current[0].pool.resource_slice_count
        names = [device.name for spec in current for device in spec.devices]
        if len(set(names)) != len(names):
            continue
        for spec in current:
            for device in spec.devices:
                traits = device.traits
                if not traits.consumes_counters and not traits.binding_conditions:
                    node, selector = _node(spec, traits)
                    yield Item((driver, pool, device.name), traits, node, selector, complete)


def _node(spec: devices.ResourceSliceSpec, device: devices.BasicDevice) -> tuple[str, NodeSelector | None]:
    where = device if spec.per_device_node_selection else spec
    return where.node_name or "", None if where.all_nodes else where.node_selector


def available_nodes(items: Iterable[Item], inventory: Inventory) -> Mask | None:
    """Return the (N,) mask of the nodes on which all of these devices are available; None for all."""
    masks = [mask for item in items if (mask := _nodes_of(item, inventory.traits)) is not None]
    return np.logical_and.reduce(masks) if masks else None


def _nodes_of(item: Item, traits: NodeTraits) -> Mask | None:
    if item.node:
        return np.arange(len(traits.objects)) == traits.rows.get(item.node, -1)
    return None if item.selector is None else node_affinity.any_term(item.selector.node_selector_terms, traits)
