"""The names by which pods request GPUs, and nodes and device plugins describe them."""

from pydantic import Field, model_validator

from volcanopy.api import names
from volcanopy.scheduler.policy.plugin import Arguments


class DeviceNames(Arguments):
    """The name in this cluster of each resource and annotation about GPUs; the keys are the default names.

    The defaults are those of Volcano's device plugin (``resourceCountName`` and the others of its ConfigMap), which are compiled
    into it for annotations.
    """

    gpu_memory: str = Field(names.GPU_MEMORY, alias=names.GPU_MEMORY)
    """Resource: memory of the shared GPUs of a node; a pod requests memory of one card."""
    gpu_number: str = Field(names.GPU_NUMBER, alias=names.GPU_NUMBER)
    """Resource: number of shared GPUs; a pod requests whole cards."""
    vgpu_number: str = Field(names.VGPU_NUMBER, alias=names.VGPU_NUMBER)
    """Resource: number of vGPUs (`resourceCountName`)."""
    vgpu_memory: str = Field(names.VGPU_MEMORY, alias=names.VGPU_MEMORY)
    """Resource: memory of each vGPU (`resourceMemoryName`)."""
    vgpu_percentage: str = Field(names.VGPU_PERCENTAGE, alias=names.VGPU_PERCENTAGE)
    """Resource: the same in percent of its card (`resourceMemoryPercentageName`); ends with `-percentage`."""
    vgpu_cores: str = Field(names.VGPU_CORES, alias=names.VGPU_CORES)
    """Resource: percent of the cores of the card of each vGPU (`resourceCoreName`)."""
    registered: str = Field(names.VGPU_REGISTER, alias=names.VGPU_REGISTER)
    """Annotation of nodes: the cards that the device plugin registers."""
    handshake: str = Field(names.VGPU_HANDSHAKE, alias=names.VGPU_HANDSHAKE)
    """Annotation of nodes: the state of older device plugins; `Deleted` followed by a time means no cards."""
    unhealthy: str = Field(names.GPU_UNHEALTHY, alias=names.GPU_UNHEALTHY)
    """Annotation of nodes: the numbers of the unhealthy shared GPUs."""
    mode: str = Field(names.VGPU_MODE, alias=names.VGPU_MODE)
    """Annotation of pods: the mode of the cards that the pod accepts."""
    use: str = Field(names.VGPU_USE, alias=names.VGPU_USE)
    """Annotation of pods: the ids of the cards that it accepts."""
    avoid: str = Field(names.VGPU_AVOID, alias=names.VGPU_AVOID)
    """Annotation of pods: the ids of the cards that it does not accept."""
    type_use: str = Field(names.GPU_TYPE_USE, alias=names.GPU_TYPE_USE)
    """Annotation of pods: the types of cards that it accepts."""
    type_avoid: str = Field(names.GPU_TYPE_AVOID, alias=names.GPU_TYPE_AVOID)
    """Annotation of pods: the types of cards that it does not accept."""
    group_policy: str = Field(names.VGPU_GROUP_POLICY, alias=names.VGPU_GROUP_POLICY)
    """Annotation of pods: `spread` keeps the pods of a group on different cards."""
    gpu_index: str = Field(names.GPU_INDEX, alias=names.GPU_INDEX)
    """Annotation of bound pods: the numbers of their shared GPUs."""
    predicate_time: str = Field(names.PREDICATE_TIME, alias=names.PREDICATE_TIME)
    """Annotation of bound pods: when these were chosen, in nanoseconds."""
    vgpu_node: str = Field(names.VGPU_NODE, alias=names.VGPU_NODE)
    """Annotation of bound pods: the node of their vGPUs."""
    vgpu_time: str = Field(names.VGPU_TIME, alias=names.VGPU_TIME)
    """Annotation of bound pods: when these were chosen, in seconds."""
    vgpu_ids: str = Field(names.VGPU_IDS, alias=names.VGPU_IDS)
    """Annotation of bound pods: their vGPUs."""
    to_allocate: str = Field(names.VGPU_TO_ALLOCATE, alias=names.VGPU_TO_ALLOCATE)
    """Annotation of bound pods: the vGPUs that the device plugin has not handed out yet."""
    bind_phase: str = Field(names.BIND_PHASE, alias=names.BIND_PHASE)
    """Annotation of bound pods: `allocating` until the device plugin has handed them out."""
    bind_time: str = Field(names.BIND_TIME, alias=names.BIND_TIME)
    """Annotation of bound pods: when they were bound, in seconds."""

    @model_validator(mode="after")
    def _names_differ(self) -> "DeviceNames":
        used: dict[str, str] = {}
        for name, field in type(self).model_fields.items():
            key, value = str(field.alias), str(getattr(self, name))
            if not value:
                raise ValueError(f"{key}: must be a name, not empty")
            if value in used:
                raise ValueError(f"{key}: the name {value} is that of {used[value]} already")
            used[value] = key
        if not self.vgpu_percentage.endswith(names.PERCENTAGE_SUFFIX):
            raise ValueError(
                f"{names.VGPU_PERCENTAGE}: the name of a percentage of a card must end with "
                f"{names.PERCENTAGE_SUFFIX}, not {self.vgpu_percentage}: others are amounts of nodes"
            )
        return self


DEFAULT = DeviceNames()
