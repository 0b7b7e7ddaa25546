"""Which Events a kubelet writes about a pod when its status changes. Pure."""

from typing import NamedTuple

from volcanopy.kube.client.kinds import Json
from volcanopy.kube.writes.event_writer import EventType
from volcanopy_local.process.pod_status import all_of, place_of


class PodEvent(NamedTuple):
    """An Event of a pod; `place` is the container that it is about, as a field path."""

    type: EventType
    reason: str
    message: str
    place: str = ""


def events_of(pod: Json, before: Json, after: Json) -> list[PodEvent]:
    """The Events of the change from one status of a pod to the next, `before` empty for the first."""
    earlier = {container["name"]: container for container in all_of({"status": before})}
    init = {container["name"] for container in after.get("initContainerStatuses") or ()}
    result = []
    for container in all_of({"status": after}):
        old = earlier.get(container["name"]) or {}
        if container["state"] != old.get("state"):
            place = place_of(container["name"], init=container["name"] in init)
            result += [event._replace(place=place) for event in _of_container(pod, container)]
    if after.get("reason") and not before.get("reason"):
        result.append(PodEvent("Warning", after["reason"], after.get("message", "")))
    return result


def _of_container(pod: Json, container: Json) -> list[PodEvent]:
    name, state = container["name"], container["state"]
    if "running" in state:
        return [PodEvent("Normal", "Started", f"Started container {name}")]
    if ended := state.get("terminated"):
        if ended["reason"] == "StartError":
            return [PodEvent("Warning", "Failed", f"Error: {ended['message']}")]
        if ended["reason"] == "OOMKilled":
            return [PodEvent("Warning", "OOMKilling", f"Container {name} exceeded its limit of memory")]
        return []
    waiting = state.get("waiting") or {}
    reason: str = waiting.get("reason", "")
    if reason == "CrashLoopBackOff":
        metadata = pod["metadata"]
        full = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        return [PodEvent("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {full}")]
    if reason == "CreateContainerConfigError":
        return [PodEvent("Warning", "Failed", f"Error: {waiting.get('message', '')}")]
    return []
