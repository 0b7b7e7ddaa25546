"""The scheduling gate of pods that wait for their queue.

A pod requests it with an annotation. Admission adds the gate, and the scheduler removes it when it binds the pod or when the pod
waits for nodes only, so that a cluster autoscaler adds no nodes for a pod that its queue does not admit. Volcano has the same
gate.
"""

from volcanopy.api import core, names
from volcanopy.api.model import Json
from volcanopy.api.translation import name_for_scheduler


def gate_of(pod: core.Pod) -> str:
    """Return the name of the gate in the API that the pod is of."""
    return gate_of_scheduler(pod.spec.scheduler_name)


def gate_of_scheduler(scheduler_name: str) -> str:
    """Return the name of the gate in the API of a scheduler's pods."""
    return name_for_scheduler(names.QUEUE_ALLOCATION_GATE, scheduler_name)


def has_queue_gate(pod: core.Pod) -> bool:
    """Whether the pod has this gate."""
    gates = pod.spec.scheduling_gates
    return bool(gates) and gate_of(pod) in {gate.name for gate in gates}


def is_gated(pod: core.Pod) -> bool:
    """Whether the pod has another gate, which another controller or user must remove."""
    gates = pod.spec.scheduling_gates
    return bool(gates) and {gate.name for gate in gates} != {gate_of(pod)}


def with_queue_gate(manifest: Json, key: str) -> Json:
    """Return a pod, or the template of one, with the gate of this name if its annotation of this name requests it."""
    metadata, spec = manifest.get("metadata"), manifest.get("spec")
    notes = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(notes, dict) or not isinstance(spec, dict):
        return manifest
    gates = spec.get("schedulingGates") or []
    if notes.get(key) != "true" or not isinstance(gates, list) or {"name": key} in gates:
        return manifest
    return {**manifest, "spec": {**spec, "schedulingGates": [*gates, {"name": key}]}}
