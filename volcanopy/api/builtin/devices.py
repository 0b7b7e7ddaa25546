"""Read models of dynamic resource allocation: ResourceClaim, ResourceSlice and DeviceClass.

The same models read ``resource.k8s.io`` v1, v1beta2 and v1beta1, which differ in the position of a few fields.
"""

from typing import Any

from msgspec import field

from volcanopy.api.core import Meta, NodeSelector, ReadModel, Taint, Toleration

GROUP = "resource.k8s.io"
Opaque = dict[str, Any]
"""A JSON object that is copied unchanged."""


class CelSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """CEL expression over one device."""

    expression: str = ""


class DeviceSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Selector of devices."""

    cel: CelSelector | None = None


class ExactRequest(ReadModel, frozen=True, kw_only=True, gc=False):
    """Request of a number of devices, or all, of a class that match all selectors."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: dict[str, Any] | None = None

    @property
    def requested_capacity(self) -> dict[str, str]:
        """What is requested of each device's capacities, by name."""
        return dict((self.capacity or {}).get("requests") or {})


class DeviceRequest(ExactRequest, frozen=True, kw_only=True, gc=False):
    """Named request: ``exactly``, or the first of several alternatives. In v1beta1 the fields of ``exactly`` are the request's
    own."""

    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()


class DeviceConstraint(ReadModel, frozen=True, kw_only=True, gc=False):
    """Constraint on devices of the named requests, or all: equal or distinct values of an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """Requests, constraints and configuration of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[Opaque, ...] = ()


class ResourceClaimSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a claim."""

    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(ReadModel, frozen=True, kw_only=True, gc=False):
    """Device allocated to a claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(ReadModel, frozen=True, kw_only=True, gc=False):
    """Devices allocated to a claim."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Allocation of a claim, and the nodes where it can be used (all nodes without a selector)."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(ReadModel, frozen=True, kw_only=True, gc=False):
    """Object for which a claim is reserved."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """A claim for devices."""

    metadata: Meta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class BasicDevice(ReadModel, frozen=True, kw_only=True, gc=False):
    """Attributes (``{"string": "a100"}``) and capacities (``{"value": "40Gi"}``) of a device by name."""

    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    consumes_counters: tuple[Opaque, ...] = ()
    binding_conditions: tuple[str, ...] = ()


class Device(BasicDevice, frozen=True, kw_only=True, gc=False):
    """A device. In v1beta1 all fields but the name are in ``basic``."""

    name: str
    basic: BasicDevice | None = None

    @property
    def traits(self) -> BasicDevice:
        """Attributes and capacities of the device in either version."""
        return self.basic or self


class Pool(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pool of a driver's devices. It is complete when all slices of the newest generation exist."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Devices of a pool and the nodes where they can be used."""

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
    """Selectors and configuration of a device class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[Opaque, ...] = ()


class DeviceClass(ReadModel, frozen=True, kw_only=True, gc=False):
    """A class of devices."""

    metadata: Meta
    spec: DeviceClassSpec = DeviceClassSpec()


Devices = ResourceClaim | ResourceSlice | DeviceClass
"""The kinds of this module."""
