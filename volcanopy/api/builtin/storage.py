"""Read models of storage: claims, volumes, storage classes, CSI drivers and their capacity."""

from msgspec import field

from volcanopy.api.core import LabelSelector, Meta, NodeSelector, Quantities, ReadModel

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim with the node for which a volume is provisioned."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
EXCLUSIVE = "ReadWriteOncePod"
"""Access mode of a claim that a single pod in the cluster may use at a time."""


class VolumeRequest(ReadModel, frozen=True, kw_only=True, gc=False):
    """Requested size of a volume, under the key ``storage``."""

    requests: Quantities = field(default_factory=dict)


class ClaimSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a claim. ``volume_name`` is set when the claim is bound."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeRequest = VolumeRequest()
    volume_name: str = ""
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None


class ClaimStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a claim: Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """A claim for a volume."""

    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(ReadModel, frozen=True, kw_only=True, gc=False):
    """Claim that a volume is bound to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(ReadModel, frozen=True, kw_only=True, gc=False):
    """Nodes from which a volume is accessible."""

    required: NodeSelector | None = None


class CsiSource(ReadModel, frozen=True, kw_only=True, gc=False):
    """CSI driver of a volume and its volume handle."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a volume."""

    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class VolumeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a volume: Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(ReadModel, frozen=True, kw_only=True, gc=False):
    """A volume."""

    metadata: Meta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(ReadModel, frozen=True, kw_only=True, gc=False):
    """A node label that must have one of these values."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """Requirements on node labels, all of which must match."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ReadModel, frozen=True, kw_only=True, gc=False):
    """A storage class."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether claims are bound only when a pod that uses them is scheduled."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def provisions(self) -> bool:
        """Whether volumes are provisioned dynamically."""
        return self.provisioner not in {"", NO_PROVISIONER}


class DriverRoom(ReadModel, frozen=True, kw_only=True, gc=False):
    """Maximum number of volumes of a driver on a node. Unlimited without a count."""

    count: int | None = None


class NodeDriver(ReadModel, frozen=True, kw_only=True, gc=False):
    """CSI driver on a node."""

    name: str
    allocatable: DriverRoom | None = None


class CSINodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """CSI drivers of a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ReadModel, frozen=True, kw_only=True, gc=False):
    """CSI drivers of the node with the same name."""

    metadata: Meta
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Whether a driver publishes its storage capacity."""

    storage_capacity: bool = False


class CSIDriver(ReadModel, frozen=True, kw_only=True, gc=False):
    """A CSI driver."""

    metadata: Meta
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ReadModel, frozen=True, kw_only=True, gc=False):
    """Storage capacity for new volumes of a class on some nodes."""

    metadata: Meta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None


Storage = PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | CSIDriver | CSIStorageCapacity
"""The kinds of this module."""
