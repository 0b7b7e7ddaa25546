"""The slice that we read of dynamic resources: claims on devices, the devices that drivers offer, and their classes.

One set of structs reads ``resource.k8s.io`` in v1, v1beta2 and v1beta1, which differ in where a few fields stand.
"""

from typing import Any

from msgspec import field

from volcanopy.api.core import Meta, NodeSelector, ReadModel

GROUP = "resource.k8s.io"
Opaque = dict[str, Any]
"""Kept as it came, to be written elsewhere as it is."""


class CelSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """An expression over one device."""

    expression: str = ""


class DeviceSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Which devices suit; CEL is the only language there is."""

    cel: CelSelector | None = None


class DeviceToleration(ReadModel, frozen=True, kw_only=True, gc=False):
    """A device taint that a request bears."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ExactRequest(ReadModel, frozen=True, kw_only=True, gc=False):
    """So many devices (or all) of a class for which all selectors hold."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: dict[str, Any] | None = None


class DeviceRequest(ExactRequest, frozen=True, kw_only=True, gc=False):
    """A named request: ``exactly``, or the first of several that can be had. In v1beta1 the exact form is the request's own."""

    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()


class DeviceConstraint(ReadModel, frozen=True, kw_only=True, gc=False):
    """Devices of these requests (of all, if none is named) must agree, or all differ, in an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[Opaque, ...] = ()


class ResourceClaimSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a claim asks for: devices."""

    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(ReadModel, frozen=True, kw_only=True, gc=False):
    """A device that a claim was given."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(ReadModel, frozen=True, kw_only=True, gc=False):
    """All of them."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a claim was given, and where it can be used; anywhere without a selector."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(ReadModel, frozen=True, kw_only=True, gc=False):
    """Who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a claim was given, and who uses it."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """A claim on devices."""

    metadata: Meta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceTaint(ReadModel, frozen=True, kw_only=True, gc=False):
    """What keeps claims off a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class BasicDevice(ReadModel, frozen=True, kw_only=True, gc=False):
    """What is said of a device: attributes (``{"string": "a100"}``) and capacities (``{"value": "40Gi"}``) by name."""

    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    consumes_counters: tuple[Opaque, ...] = ()


class Device(BasicDevice, frozen=True, kw_only=True, gc=False):
    """One device; in v1beta1 all but the name is in ``basic``."""

    name: str
    basic: BasicDevice | None = None

    @property
    def traits(self) -> BasicDevice:
        """What is said of it, wherever it stands."""
        return self.basic or self


class Pool(ReadModel, frozen=True, kw_only=True, gc=False):
    """A driver's devices that belong together: complete when all slices of the newest generation are there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Devices of a pool, and from which nodes they can be used."""

    driver: str = ""
    pool: Pool = Pool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[Opaque, ...] = ()


class ResourceSlice(ReadModel, frozen=True, kw_only=True, gc=False):
    """A part of a pool of devices."""

    metadata: Meta
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Which devices belong to a class, and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[Opaque, ...] = ()


class DeviceClass(ReadModel, frozen=True, kw_only=True, gc=False):
    """A kind of device that can be asked for by name."""

    metadata: Meta
    spec: DeviceClassSpec = DeviceClassSpec()


Devices = ResourceClaim | ResourceSlice | DeviceClass
"""Everything here that lives on the server."""
