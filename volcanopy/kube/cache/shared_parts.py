"""Equal parts of pods as one object: the pods of a task differ in little but their names."""

from collections.abc import Hashable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model import pod_claims

REMEMBERED = 65_536
"""Parts, and values, that are remembered. With more, all are forgotten: later ones are shared among themselves."""
P = TypeVar("P")
V = TypeVar("V", bound=Hashable)


class SharedParts:
    """Gives pods the parts of earlier pods that are equal to theirs, which saves three quarters of a pod's memory."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], Any] = {}
        self._values: dict[Any, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def pod(self, pod: core.Pod) -> core.Pod:
        """Return an equal pod, but for volumes that bind no pod to nodes, such as that of the token: they are left out.

        The given pod is not to be used any more: it loses texts of its labels and annotations.
        """
        meta, spec, status, part, value = pod.metadata, pod.spec, pod.status, self._part, self._value
        for texts in (meta.labels, meta.annotations):
            for key, text in texts.items():
                texts[key] = value(text)
        shared_meta = replace(
            meta,
            namespace=value(meta.namespace),
            creation_timestamp=value(meta.creation_timestamp),
            owner_references=part("owners", meta.owner_references),
        )
        shared_spec = replace(
            spec,
            node_name=value(spec.node_name),
            scheduler_name=value(spec.scheduler_name),
            priority_class_name=value(spec.priority_class_name),
            preemption_policy=value(spec.preemption_policy),
            node_selector=part("texts", spec.node_selector),
            affinity=part("affinity", spec.affinity),
            tolerations=part("tolerations", spec.tolerations),
            topology_spread_constraints=part("spread", spec.topology_spread_constraints),
            containers=part("containers", spec.containers),
            init_containers=part("containers", spec.init_containers),
            overhead=part("overhead", spec.overhead),
            volumes=part("volumes", pod_claims.kept(spec.volumes)),
        )
        shared_status = replace(
            status,
            phase=value(status.phase),
            start_time=value(status.start_time),
            conditions=tuple([part("condition", each) for each in status.conditions]),
            container_statuses=part("container statuses", status.container_statuses),
            init_container_statuses=part("container statuses", status.init_container_statuses),
        )
        return replace(pod, metadata=shared_meta, spec=shared_spec, status=shared_status)

    def _part(self, kind: str, value: P) -> P:
        """Return the first part of this kind that was equal."""
        if value is None:
            return value
        if len(self._parts) >= REMEMBERED:
            self._parts.clear()
        shared: P = self._parts.setdefault((kind, self._encode(value)), value)
        return shared

    def _value(self, value: V) -> V:
        """Return the first text or time that was equal."""
        if len(self._values) >= REMEMBERED:
            self._values.clear()
        shared: V = self._values.setdefault(value, value)
        return shared
