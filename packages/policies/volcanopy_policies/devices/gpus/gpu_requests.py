"""What pods request of GPUs: memory of one shared card, whole cards, or vGPUs for each container."""

from volcanopy.api import core
from volcanopy.api.builtin.gpu_annotations import limit, pod_limit
from volcanopy_policies.devices.cards.card_selection import CardRequest
from volcanopy_policies.devices.gpus.device_names import DEFAULT, DeviceNames


def shared_memory_requests(spec: core.PodSpec, named: DeviceNames = DEFAULT) -> tuple[CardRequest | None, ...]:
    """Return the memory that a pod requests of one card; empty without a request."""
    units = pod_limit(spec, named.gpu_memory)
    return (CardRequest(memory=units),) if units else ()


def whole_card_requests(spec: core.PodSpec, named: DeviceNames = DEFAULT) -> tuple[CardRequest | None, ...]:
    """Return the number of whole cards that a pod requests; empty without a request."""
    number = pod_limit(spec, named.gpu_number)
    return (CardRequest(number=number, whole=True),) if number else ()


def vgpu_requests(spec: core.PodSpec, named: DeviceNames = DEFAULT) -> tuple[CardRequest | None, ...]:
    """Return the request of each container, None without one; empty if no container has one."""
    requests = tuple(_vgpu_request(container, named) for container in spec.containers)
    return requests if any(requests) else ()


def _vgpu_request(container: core.Container, named: DeviceNames) -> CardRequest | None:
    memory, percent = limit(container, named.vgpu_memory), limit(container, named.vgpu_percentage)
    number = limit(container, named.vgpu_number) or (1 if memory or percent else 0)
    if not number:
        return None
    if not memory and not percent:
        percent = 100
    return CardRequest(number, memory, 0 if memory else percent, limit(container, named.vgpu_cores))
