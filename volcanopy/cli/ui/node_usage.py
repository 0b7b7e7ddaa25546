"""Which jobs use how much of each node, updated with every change of a pod."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from volcanopy.api import names, quantity
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import CardShare
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.api.core import Pod
from volcanopy.api.quantity import QuantityError

_OVER = frozenset({"Succeeded", "Failed"})


class Use(NamedTuple):
    """The requests of a pod on a node, in base units; ``reserved`` for a pod that waits there for evicted ones to end.

    ``cards`` are its shares of GPUs.
    """

    job: str
    amounts: Mapping[str, int]
    reserved: bool
    cards: tuple[CardShare, ...] = ()


class NodeUsage:
    """The pods of each node. A change of a pod costs the same however many pods there are."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Use]] = {}
        self._places: dict[str, str] = {}

    def take(self, pod: Pod) -> None:
        """Take a pod that was added or changed."""
        key = pod.metadata.key
        self.remove(key)
        node = pod.spec.node_name or pod.status.nominated_node_name
        if not node or pod.status.phase in _OVER:
            return
        try:
            amounts = pod_requests(resources_of(pod.spec))
        except QuantityError:
            return  # the scheduler excludes it and reports that
        self._places[key] = node
        self._nodes.setdefault(node, {})[key] = Use(job_of(pod), amounts, not pod.spec.node_name, shares_of(pod))

    def remove(self, key: str) -> None:
        """Remove a pod."""
        node = self._places.pop(key, None)
        if node is None:
            return
        uses = self._nodes[node]
        del uses[key]
        if not uses:
            del self._nodes[node]

    def of(self, node: str) -> Iterator[Use]:
        """Yield the pods on a node."""
        return iter(self._nodes.get(node, {}).values())

    def allocated(self, node: str) -> dict[str, int]:
        """Return the amounts that the pods on a node request, without reserved ones."""
        return quantity.summed(use.amounts for use in self.of(node) if not use.reserved)


def job_of(pod: Pod) -> str:
    """Return ``namespace/name`` of the pod's job; of the pod itself if it belongs to none."""
    name = pod.metadata.labels.get(names.JOB_NAME) or pod.metadata.name
    return f"{pod.metadata.namespace}/{name}"


def shares_of(pod: Pod) -> tuple[CardShare, ...]:
    """Return what a pod uses of cards, by its annotations; nothing without them."""
    notes = pod.metadata.annotations
    if cards := notes.get(names.VGPU_IDS):
        return gpu_annotations.vgpu_shares(cards)
    if not (cards := notes.get(names.GPU_INDEX)):
        return ()
    return gpu_annotations.shared_gpu_shares(cards, gpu_annotations.pod_limit(pod.spec, names.GPU_MEMORY))
