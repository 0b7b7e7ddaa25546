"""The lines of a world that tell of volumes, devices and the claims on them::

    storageclass local waits provisioner=disks.example.com zones=a,b
    pv      v1 size=10Gi class=local on=n1,n2 for=data csi=disks.example.com mode=ReadWriteMany zone=a
    pvc     data size=1Gi class=local volume=v1 mode=ReadWriteOncePod selected=n1 owner=a-0
    csinode n1 disks.example.com=3
    csidriver disks.example.com tells
    capacity room class=local size=5Gi zone=a
    deviceclass gpu driver=gpu.example.com model=a100
    devices n1 count=4 driver=gpu.example.com model=a100
    claim   two class=gpu count=2 alike=model model=a100 users=a-0 has=n1/0,n1/1 owner=a-0
    job     a: 2 x cpu=1 pvc=data claim=two, 1 x cpu=1 ephemeral=scratch template=gpu

``devices`` are on the node of the line's name, or with ``everywhere`` on none in particular; they are called ``0``,
``1`` and so on, in a pool of the line's name. A claim made from a template is called after pod and template
(``a-0-gpu``), the claim of an ephemeral volume after pod and volume.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from volcanopy.api import core, devices, storage

Said = Mapping[str, str]
_DRIVER = "gpu.example.com"
_ZONE = "topology.kubernetes.io/zone"
_WORDS = frozenset(
    {"class", "count", "alike", "users", "has", "owner", "mode", "driver", "each", "everywhere", "all", "admin"}
)


def volumes(said: Said) -> tuple[core.Volume, ...]:
    """The volumes of a pod: ``pvc=`` and ``ephemeral=``, several with commas."""
    named = [
        core.Volume(name=name, persistent_volume_claim=core.ClaimSource(claim_name=name)) for name in _list(said, "pvc")
    ]
    return (*named, *(core.Volume(name=name, ephemeral={}) for name in _list(said, "ephemeral")))


def claims(said: Said) -> tuple[core.PodResourceClaim, ...]:
    """The claims of a pod on devices: ``claim=`` by name, ``template=`` made for it."""
    named = [core.PodResourceClaim(name=name, resource_claim_name=name) for name in _list(said, "claim")]
    made = [core.PodResourceClaim(name=name, resource_claim_template_name=name) for name in _list(said, "template")]
    return (*named, *made)


def made(pod: str, said: Said) -> tuple[core.PodClaimStatus, ...]:
    """What a pod's status says of the claims that were made from its templates."""
    return tuple(
        core.PodClaimStatus(name=name, resource_claim_name=f"{pod}-{name}") for name in _list(said, "template")
    )


def _list(said: Said, key: str) -> list[str]:
    return [one for one in said.get(key, "").split(",") if one]


def _meta(name: str, said: Said, created: datetime, namespace: str = "", **more: Any) -> core.Meta:
    owner = said.get("owner")
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


def _volume(name: str, said: Said, created: datetime) -> storage.PersistentVolume:
    nodes = tuple(_list(said, "on"))
    requested = core.Requirement(key="kubernetes.io/hostname", operator="In", values=nodes)
    term = core.NodeSelectorTerm(match_expressions=(requested,))
    affinity = storage.VolumeNodeAffinity(required=core.NodeSelector(node_selector_terms=(term,)))
    wanted_by = said.get("for")
    reference = storage.ClaimReference(namespace="default", name=wanted_by) if wanted_by else None
    return storage.PersistentVolume(
        metadata=_meta(name, said, created, labels={_ZONE: said["zone"]} if "zone" in said else {}),
        spec=storage.VolumeSpec(
            capacity={"storage": said.get("size", "10Gi")},
            access_modes=tuple(_list(said, "mode")) or ("ReadWriteOnce",),
            claim_ref=reference,
            storage_class_name=said.get("class", ""),
            node_affinity=affinity if nodes else None,
            csi=storage.CsiSource(driver=said["csi"], volume_handle=name) if "csi" in said else None,
        ),
        status=storage.VolumeStatus(phase="Bound" if reference else "Available"),
    )


def _claim(name: str, said: Said, created: datetime) -> storage.PersistentVolumeClaim:
    notes = {storage.SELECTED_NODE: said["selected"]} if "selected" in said else {}
    return storage.PersistentVolumeClaim(
        metadata=_meta(name, said, created, "default", annotations=notes),
        spec=storage.ClaimSpec(
            access_modes=tuple(_list(said, "mode")) or ("ReadWriteOnce",),
            resources=storage.VolumeRequest(requests={"storage": said.get("size", "1Gi")}),
            volume_name=said.get("volume", ""),
            storage_class_name=said.get("class", ""),
        ),
        status=storage.ClaimStatus(phase="Bound" if "volume" in said else "Pending"),
    )


def _class(name: str, said: Said, created: datetime) -> storage.StorageClass:
    zones = tuple(_list(said, "zones"))
    allowed = storage.TopologyTerm(match_label_expressions=(storage.TopologyRequirement(key=_ZONE, values=zones),))
    return storage.StorageClass(
        metadata=_meta(name, said, created),
        provisioner=said.get("provisioner", storage.NO_PROVISIONER),
        volume_binding_mode="WaitForFirstConsumer" if "waits" in said else "Immediate",
        allowed_topologies=(allowed,) if zones else (),
    )


def _node(name: str, said: Said, created: datetime) -> storage.CSINode:
    drivers = tuple(
        storage.NodeDriver(name=driver, allocatable=storage.DriverRoom(count=int(count)))
        for driver, count in said.items()
    )
    return storage.CSINode(metadata=_meta(name, said, created), spec=storage.CSINodeSpec(drivers=drivers))


def _driver(name: str, said: Said, created: datetime) -> storage.CSIDriver:
    spec = storage.CSIDriverSpec(storage_capacity="tells" in said)
    return storage.CSIDriver(metadata=_meta(name, said, created), spec=spec)


def _capacity(name: str, said: Said, created: datetime) -> storage.CSIStorageCapacity:
    return storage.CSIStorageCapacity(
        metadata=_meta(name, said, created, "default"),
        storage_class_name=said.get("class", ""),
        node_topology=core.LabelSelector(match_labels={_ZONE: said["zone"]} if "zone" in said else {}),
        capacity=said.get("size", "10Gi"),
    )


def _devices(name: str, said: Said, created: datetime) -> devices.ResourceSlice:
    attributes = {key: {"string": value} for key, value in said.items() if key not in _WORDS}
    count = int(said.get("count", 1))
    each = said.get("each", "")
    return devices.ResourceSlice(
        metadata=_meta(name, {}, created),
        spec=devices.ResourceSliceSpec(
            driver=said.get("driver", _DRIVER),
            pool=devices.Pool(name=name, generation=1, resource_slice_count=1),
            node_name=None if "everywhere" in said else name,
            all_nodes=True if "everywhere" in said else None,
            devices=tuple(
                devices.Device(name=str(number), attributes=attributes | ({each: {"int": number}} if each else {}))
                for number in range(count)
            ),
        ),
    )


def _selectors(said: Said) -> tuple[devices.DeviceSelector, ...]:
    driver = said.get("driver", _DRIVER)
    texts = [f'device.driver == "{driver}"'] if "driver" in said else []
    texts += [f'device.attributes["{driver}"].{key} == "{value}"' for key, value in said.items() if key not in _WORDS]
    return tuple(devices.DeviceSelector(cel=devices.CelSelector(expression=text)) for text in texts)


def _device_class(name: str, said: Said, created: datetime) -> devices.DeviceClass:
    return devices.DeviceClass(
        metadata=_meta(name, {}, created), spec=devices.DeviceClassSpec(selectors=_selectors(said))
    )


def _device_claim(name: str, said: Said, created: datetime) -> devices.ResourceClaim:
    request = devices.ExactRequest(
        device_class_name=said.get("class", "gpu"),
        selectors=_selectors({key: value for key, value in said.items() if key != "driver"}),
        allocation_mode="All" if "all" in said else "ExactCount",
        count=int(said.get("count", 1)),
        admin_access=True if "admin" in said else None,
    )
    same_shape = said.get("alike")
    constraint = devices.DeviceConstraint(match_attribute=f"{said.get('driver', _DRIVER)}/{same_shape}")
    requested = devices.DeviceClaim(
        requests=(devices.DeviceRequest(name="request", exactly=request),),
        constraints=(constraint,) if same_shape else (),
    )
    return devices.ResourceClaim(
        metadata=_meta(name, said, created, "default"),
        spec=devices.ResourceClaimSpec(devices=requested),
        status=devices.ResourceClaimStatus(
            allocation=_allocation(said),
            reserved_for=tuple(
                devices.Consumer(resource="pods", name=pod, uid=f"uid-default-{pod}") for pod in _list(said, "users")
            ),
        ),
    )


def _allocation(said: Said) -> devices.Allocation | None:
    has = [one.split("/") for one in _list(said, "has")]
    if not has:
        return None
    driver = said.get("driver", _DRIVER)
    results = tuple(
        devices.AllocatedDevice(request="request", driver=driver, pool=pool, device=name) for pool, name in has
    )
    name = core.Requirement(key="metadata.name", operator="In", values=(has[0][0],))
    where = core.NodeSelector(node_selector_terms=(core.NodeSelectorTerm(match_fields=(name,)),))
    return devices.Allocation(devices=devices.AllocatedDevices(results=results), node_selector=where)


KINDS: dict[str, Callable[[str, Said, datetime], storage.Storage | devices.Devices]] = {
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
"""What makes an object of a line, by its first word: from its name, its words (flags say nothing) and its moment."""
