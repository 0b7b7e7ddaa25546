"""Claims of pods on volumes and devices.

Most pods have none; these functions must then cost next to nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from volcanopy.api import core


class ClaimedVolume(NamedTuple):
    """A claim on a volume: its key, and whether it is the pod's own, made for it alone."""

    key: str
    own: bool


class ClaimedDevices(NamedTuple):
    """A claim on devices: what the pod calls it, its key (empty: not made yet), and whether it is the pod's own."""

    name: str
    key: str
    own: bool


def anything(spec: core.PodSpec) -> bool:
    """Whether there are claims behind a pod, on volumes or on devices."""
    return bool(spec.resource_claims) or any(volume.claims for volume in spec.volumes)


def kept(volumes: tuple[core.Volume, ...]) -> tuple[core.Volume, ...]:
    """Those of a pod's volumes that may bind it to nodes."""
    return tuple(volume for volume in volumes if volume.claims) if volumes else volumes


def volumes(pod: core.Pod) -> Iterator[ClaimedVolume]:
    """The claims on volumes behind a pod."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimedVolume(f"{namespace}/{volume.persistent_volume_claim.claim_name}", False)
        elif volume.ephemeral is not None:
            yield ClaimedVolume(f"{namespace}/{pod.metadata.name}-{volume.name}", True)


def devices(pod: core.Pod) -> Iterator[ClaimedDevices]:
    """The claims on devices behind a pod; a template for which no claim is needed is left out."""
    namespace = pod.metadata.namespace
    claim_names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield ClaimedDevices(claim.name, f"{namespace}/{claim.resource_claim_name}", False)
        elif claim.name not in claim_names:
            yield ClaimedDevices(claim.name, "", True)
        elif name := claim_names[claim.name]:
            yield ClaimedDevices(claim.name, f"{namespace}/{name}", True)
