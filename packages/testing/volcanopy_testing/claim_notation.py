"""World notation for volumes, devices and claims::

    storageclass local waits provisioner=disks.example.com zones=a,b
    pv      v1 size=10Gi class=local on=n1,n2 for=data csi=disks.example.com mode=ReadWriteMany zone=a
    pvc     data size=1Gi class=local volume=v1 mode=ReadWriteOncePod selected=n1 owner=a-0
    csinode n1 disks.example.com=3
    csidriver disks.example.com storagecapacity
    capacity c1 class=local size=5Gi zone=a
    deviceclass gpu driver=gpu.example.com model=a100
    devices n1 count=4 driver=gpu.example.com model=a100 capacity.cores=400
    claim   part class=gpu capacity.cores=300
    claim   most class=gpu count=4,2
    claim   two class=gpu count=2 match=model model=a100 users=a-0 has=n1/0,n1/1 owner=a-0
    job     a: 2 x cpu=1 pvc=data claim=two, 1 x cpu=1 ephemeral=scratch template=gpu

``devices`` are on the node with the name of the line, or with ``everywhere`` on all nodes; they are named ``0``, ``1`` and
so on, in a pool with the name of the line. A claim made from a template is named after the pod and the template
(``a-0-gpu``), the claim of an ephemeral volume after the pod and the volume. ``count=4,2`` are alternatives, the best first.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from volcanopy.api import core
from volcanopy.api.builtin import devices, storage

Values = Mapping[str, str]
_DRIVER = "gpu.example.com"
_CAPACITY = "capacity."
_ZONE = "topology.kubernetes.io/zone"
_KEYS = frozenset(
    {"class", "count", "match", "users", "has", "owner", "mode", "driver", "each", "everywhere", "all", "admin"}
)


def volumes(values: Values) -> tuple[core.Volume, ...]:
    """Return the volumes of a pod from ``pvc=`` and ``ephemeral=``, separated by commas."""
    named = [
        core.Volume(name=name, persistent_volume_claim=core.ClaimSource(claim_name=name))
        for name in _list(values, "pvc")
    ]
    return (*named, *(core.Volume(name=name, ephemeral={}) for name in _list(values, "ephemeral")))


def claims(values: Values) -> tuple[core.PodResourceClaim, ...]:
    """Return the device claims of a pod: ``claim=`` by name, ``template=`` made from a template."""
    named = [core.PodResourceClaim(name=name, resource_claim_name=name) for name in _list(values, "claim")]
    made = [core.PodResourceClaim(name=name, resource_claim_template_name=name) for name in _list(values, "template")]
    return (*named, *made)


def claim_statuses(pod: str, values: Values) -> tuple[core.PodClaimStatus, ...]:
    """Return the pod status entries of the claims that were made from its templates."""
    return tuple(
        core.PodClaimStatus(name=name, resource_claim_name=f"{pod}-{name}") for name in _list(values, "template")
    )


def _list(values: Values, key: str) -> list[str]:
    return [item for item in values.get(key, "").split(",") if item]


def _meta(name: str, values: Values, created: datetime, namespace: str = "", **more: Any) -> core.Meta:
    owner = values.get("owner")
    owners = (
        (core.OwnerReference(kind="Pod", name=owner, uid=f"uid-default-{owner}", controller=True),) if owner else ()
    )
    return core.Meta(
        name=name,
        namespace=namespace,
        uid=f"uid-{namespace}-{name}",
        creation_timestamp=created,
        owner_references=owners,
        **more,
    )


def _volume(name: str, values: Values, created: datetime) -> storage.PersistentVolume:
    nodes = tuple(_list(values, "on"))
    requested = core.Requirement(key="kubernetes.io/hostname", operator="In", values=nodes)
    term = core.NodeSelectorTerm(match_expressions=(requested,))
    affinity = storage.VolumeNodeAffinity(required=core.NodeSelector(node_selector_terms=(term,)))
    claim_name = values.get("for")
    reference = storage.ClaimReference(namespace="default", name=claim_name) if claim_name else None
    return storage.PersistentVolume(
        metadata=_meta(name, values, created, labels={_ZONE: values["zone"]} if "zone" in values else {}),
        spec=storage.PersistentVolumeSpec(
            capacity={"storage": values.get("size", "10Gi")},
            access_modes=tuple(_list(values, "mode")) or ("ReadWriteOnce",),
            claim_ref=reference,
            storage_class_name=values.get("class", ""),
            node_affinity=affinity if nodes else None,
            csi=storage.CsiSource(driver=values["csi"], volume_handle=name) if "csi" in values else None,
        ),
        status=storage.VolumeStatus(phase="Bound" if reference else "Available"),
    )


def _claim(name: str, values: Values, created: datetime) -> storage.PersistentVolumeClaim:
    notes = {storage.SELECTED_NODE: values["selected"]} if "selected" in values else {}
    return storage.PersistentVolumeClaim(
        metadata=_meta(name, values, created, "default", annotations=notes),
        spec=storage.ClaimSpec(
            access_modes=tuple(_list(values, "mode")) or ("ReadWriteOnce",),
            resources=storage.VolumeRequest(requests={"storage": values.get("size", "1Gi")}),
            volume_name=values.get("volume", ""),
            storage_class_name=values.get("class", ""),
        ),
        status=storage.ClaimStatus(phase="Bound" if "volume" in values else "Pending"),
    )


def _class(name: str, values: Values, created: datetime) -> storage.StorageClass:
    zones = tuple(_list(values, "zones"))
    allowed = storage.TopologyTerm(match_label_expressions=(storage.TopologyRequirement(key=_ZONE, values=zones),))
    return storage.StorageClass(
        metadata=_meta(name, values, created),
        provisioner=values.get("provisioner", storage.NO_PROVISIONER),
        volume_binding_mode="WaitForFirstConsumer" if "waits" in values else "Immediate",
        allowed_topologies=(allowed,) if zones else (),
    )


def _node(name: str, values: Values, created: datetime) -> storage.CSINode:
    drivers = tuple(
        storage.NodeDriver(name=driver, allocatable=storage.DriverRoom(count=int(count)))
        for driver, count in values.items()
    )
    return storage.CSINode(metadata=_meta(name, values, created), spec=storage.CSINodeSpec(drivers=drivers))


def _driver(name: str, values: Values, created: datetime) -> storage.CSIDriver:
    spec = storage.CSIDriverSpec(storage_capacity="storagecapacity" in values)
    return storage.CSIDriver(metadata=_meta(name, values, created), spec=spec)


def _capacity(name: str, values: Values, created: datetime) -> storage.CSIStorageCapacity:
    return storage.CSIStorageCapacity(
        metadata=_meta(name, values, created, "default"),
        storage_class_name=values.get("class", ""),
        node_topology=core.LabelSelector(match_labels={_ZONE: values["zone"]} if "zone" in values else {}),
        capacity=values.get("size", "10Gi"),
    )


def _devices(name: str, values: Values, created: datetime) -> devices.ResourceSlice:
    attributes = {key: {"string": value} for key, value in _others(values).items()}
    capacity = {name: {"value": text} for name, text in _capacities(values).items()}
    count = int(values.get("count", 1))
    each = values.get("each", "")
    return devices.ResourceSlice(
        metadata=_meta(name, {}, created),
        spec=devices.ResourceSliceSpec(
            driver=values.get("driver", _DRIVER),
            pool=devices.Pool(name=name, generation=1, resource_slice_count=1),
            node_name=None if "everywhere" in values else name,
            all_nodes=True if "everywhere" in values else None,
            devices=tuple(
                devices.Device(
                    name=str(number),
                    attributes=attributes | ({each: {"int": number}} if each else {}),
                    capacity=capacity,
                )
                for number in range(count)
            ),
        ),
    )


def _others(values: Values) -> Values:
    return {key: value for key, value in values.items() if key not in _KEYS and not key.startswith(_CAPACITY)}


def _capacities(values: Values) -> Values:
    return {key.removeprefix(_CAPACITY): value for key, value in values.items() if key.startswith(_CAPACITY)}


def _selectors(values: Values) -> tuple[devices.DeviceSelector, ...]:
    driver = values.get("driver", _DRIVER)
    texts = [f'device.driver == "{driver}"'] if "driver" in values else []
    texts += [f'device.attributes["{driver}"].{key} == "{value}"' for key, value in _others(values).items()]
    return tuple(devices.DeviceSelector(cel=devices.CelSelector(expression=text)) for text in texts)


def _device_class(name: str, values: Values, created: datetime) -> devices.DeviceClass:
    return devices.DeviceClass(
        metadata=_meta(name, {}, created), spec=devices.DeviceClassSpec(selectors=_selectors(values))
    )


def _device_claim(name: str, values: Values, created: datetime) -> devices.ResourceClaim:
    counts = values.get("count", "1").split(",")
    requests = tuple(
        devices.ExactRequest(
            name=f"of-{count}",
            device_class_name=values.get("class", "gpu"),
            selectors=_selectors({key: value for key, value in values.items() if key != "driver"}),
            allocation_mode="All" if "all" in values else "ExactCount",
            count=int(count),
            admin_access=True if "admin" in values else None,
            capacity={"requests": dict(capacities)} if (capacities := _capacities(values)) else None,
        )
        for count in counts
    )
    request = (
        devices.DeviceRequest(name="request", first_available=requests)
        if len(requests) > 1
        else devices.DeviceRequest(name="request", exactly=requests[0])
    )
    same_shape = values.get("match")
    constraint = devices.DeviceConstraint(match_attribute=f"{values.get('driver', _DRIVER)}/{same_shape}")
    requested = devices.DeviceClaim(requests=(request,), constraints=(constraint,) if same_shape else ())
    return devices.ResourceClaim(
        metadata=_meta(name, values, created, "default"),
        spec=devices.ResourceClaimSpec(devices=requested),
        status=devices.ResourceClaimStatus(
            allocation=_allocation(values),
            reserved_for=tuple(
                devices.Consumer(resource="pods", name=pod, uid=f"uid-default-{pod}") for pod in _list(values, "users")
            ),
        ),
    )


def _allocation(values: Values) -> devices.Allocation | None:
    has = [device.split("/") for device in _list(values, "has")]
    if not has:
        return None
    driver = values.get("driver", _DRIVER)
    results = tuple(
        devices.AllocatedDevice(request="request", driver=driver, pool=pool, device=name) for pool, name in has
    )
    name = core.Requirement(key="metadata.name", operator="In", values=(has[0][0],))
    where = core.NodeSelector(node_selector_terms=(core.NodeSelectorTerm(match_fields=(name,)),))
    return devices.Allocation(devices=devices.AllocatedDevices(results=results), node_selector=where)


KINDS: dict[str, Callable[[str, Values, datetime], storage.Storage | devices.Devices]] = {
    "pv": _volume,
    "pvc": _claim,
    "storageclass": _class,
    "csinode": _node,
    "csidriver": _driver,
    "capacity": _capacity,
    "devices": _devices,
    "deviceclass": _device_class,
    "claim": _device_claim,
}
"""Functions that make an object from a line, by the kind of the line: from its name, values and creation time."""
