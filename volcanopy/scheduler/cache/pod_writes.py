"""Writes to pods that the API server has not shown yet, or has rejected."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcanopy.api import core
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.plan import Bind, Evict


@dataclass
class PodWrites:
    """The assumed binds and evictions, and the pods whose bind or eviction was rejected; all by the key of the pod."""

    binds: dict[str, tuple[str, str, Mapping[str, str]]] = field(default_factory=dict)
    """The uid, the node and the annotations of assumed binds."""
    evictions: dict[str, str] = field(default_factory=dict)
    """The uid of assumed evictions."""
    backoffs: dict[str, str] = field(default_factory=dict)
    """The uid of pods whose next attempt is not due."""

    def assume(self, effect: Bind | Evict, uid: str) -> None:
        """Assume an effect on the pod of this uid."""
        if isinstance(effect, Evict):
            self.evictions[effect.pod] = uid
        else:
            self.binds[effect.pod] = uid, effect.node, effect.annotations

    def concern(self, key: str, uid: str) -> bool:
        """Whether there is anything about the pod of this uid."""
        return uid in {self.binds.get(key, ("",))[0], self.evictions.get(key), self.backoffs.get(key)}

    def drop(self, key: str) -> None:
        """Drop what concerns a pod."""
        for entries in (self.binds, self.evictions, self.backoffs):
            if key in entries:
                del entries[key]

    def confirm(self, key: str, pod: core.Pod) -> None:
        """Drop what this state of a pod shows, and what concerned another pod of its name."""
        uid = pod.metadata.uid
        if key in self.binds and (pod.spec.node_name or uid != self.binds[key][0] or pod_fields.is_over(pod)):
            del self.binds[key]
        if key in self.evictions and (pod.is_terminating or uid != self.evictions[key]):
            del self.evictions[key]
        if key in self.backoffs and uid != self.backoffs[key]:
            del self.backoffs[key]
