"""The slice that we read of storage: claims on volumes, the volumes, who makes them, and how many a node bears."""

from msgspec import field

from volcanopy.api.core import LabelSelector, Meta, NodeSelector, Quantities, ReadModel

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation of a claim that tells its provisioner for which node the volume is wanted."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
EXCLUSIVE = "ReadWriteOncePod"
"""The access mode of a claim that one pod in the cluster may use at a time."""


class VolumeRequest(ReadModel, frozen=True, kw_only=True, gc=False):
    """How large a volume must be, under the key ``storage``."""

    requests: Quantities = field(default_factory=dict)


class ClaimSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What volume is wanted; ``volume_name`` once there is one."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeRequest = VolumeRequest()
    volume_name: str = ""
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None


class ClaimStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Where a claim stands: Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """A claim on a volume."""

    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(ReadModel, frozen=True, kw_only=True, gc=False):
    """The claim that a volume is for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(ReadModel, frozen=True, kw_only=True, gc=False):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class CsiSource(ReadModel, frozen=True, kw_only=True, gc=False):
    """The driver of a volume, and what it calls the volume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a volume is like."""

    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class VolumeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Where a volume stands: Available, Bound, Released, Failed."""

    phase: str = ""


class PersistentVolume(ReadModel, frozen=True, kw_only=True, gc=False):
    """A volume."""

    metadata: Meta
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(ReadModel, frozen=True, kw_only=True, gc=False):
    """A node label that must have one of these values."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """Node labels, all of which must be as said."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ReadModel, frozen=True, kw_only=True, gc=False):
    """Who makes volumes, when, and where they can be used."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether claims get their volume only when a pod that uses them has a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return self.provisioner not in {"", NO_PROVISIONER}


class DriverRoom(ReadModel, frozen=True, kw_only=True, gc=False):
    """How many volumes of a driver a node bears; no count, no limit."""

    count: int | None = None


class NodeDriver(ReadModel, frozen=True, kw_only=True, gc=False):
    """A driver that runs on a node."""

    name: str
    allocatable: DriverRoom | None = None


class CSINodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """The drivers of a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a node of the same name says about its volume drivers."""

    metadata: Meta
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Whether a driver tells how much room is left for new volumes."""

    storage_capacity: bool = False


class CSIDriver(ReadModel, frozen=True, kw_only=True, gc=False):
    """A volume driver."""

    metadata: Meta
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ReadModel, frozen=True, kw_only=True, gc=False):
    """How much room is left for new volumes of a class, and for which nodes."""

    metadata: Meta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None


Storage = PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | CSIDriver | CSIStorageCapacity
"""Everything here that lives on the server."""
