"""Read model of pods for the simulated kubelet, and the statuses that it writes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import field
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.container_states import Terminated
from volcanopy.api.times import format_time
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.kinds import Json
from volcanopy_local.conditions import condition
from volcanopy_local.simulated import pod_stages
from volcanopy_local.simulated.pod_stages import Moment, Script, Span, Stages


class Meta(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """Metadata of a pod: only what its script needs, of 100,000 pods."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: core.Labels = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ContainerSpec(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """A container."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""


class PodSpec(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """Containers and node of a pod."""

    node_name: str = ""
    restart_policy: pod_stages.RestartPolicy = "Always"
    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    active_deadline_seconds: int | None = None


class Running(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """A container's state ``running``."""


class SimulatedContainerState(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """State of a container: ``waiting`` if neither is set."""

    running: Running | None = None
    terminated: Terminated | None = None


class SimulatedContainerStatus(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a container on the API server."""

    name: str = ""
    restart_count: int = 0
    state: SimulatedContainerState = SimulatedContainerState()


class SimulatedPodStatus(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a pod on the API server."""

    phase: str = "Pending"
    start_time: datetime | None = None
    pod_ip: str = field(name="podIP", default="")
    container_statuses: tuple[SimulatedContainerStatus, ...] = ()
    init_container_statuses: tuple[SimulatedContainerStatus, ...] = ()


class SimulatedPod(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: SimulatedPodStatus = SimulatedPodStatus()


PODS = raw_kinds.PODS.of(SimulatedPod)
_SHARED = 10_000
"""Parts of pods that are remembered."""


def sharing() -> Callable[[SimulatedPod], SimulatedPod]:
    """Return a function that gives pods the parts of earlier ones that are equal: those of a job differ in little."""
    parts: dict[Any, Any] = {}

    def share(pod: SimulatedPod) -> SimulatedPod:
        if len(parts) > _SHARED:
            parts.clear()
        annotations, statuses = pod.metadata.annotations, pod.status.container_statuses
        return replace(
            pod,
            metadata=replace(
                pod.metadata, annotations=parts.setdefault(("annotations", *annotations.items()), annotations)
            ),
            spec=parts.setdefault(pod.spec, pod.spec),
            status=replace(pod.status, container_statuses=parts.setdefault(statuses, statuses)),
        )

    return share


Shown = tuple[str, tuple[tuple[str, int], ...]]
"""The part of a status that changes: the phase, and state and restarts of each container."""


class PodAddresses(NamedTuple):
    """Addresses of a pod and its node."""

    pod_ip: str
    host_ip: str


def read_script(pod: SimulatedPod, usual: Stages) -> Script:
    """Return the script of a pod. Raises AnnotationError."""
    return pod_stages.script(
        pod.metadata.annotations,
        ((container.name, container.image) for container in pod.spec.containers),
        ((container.name, container.image, container.restart_policy) for container in pod.spec.init_containers),
        pod.spec.restart_policy,
        pod.metadata.uid,
        usual,
        pod.spec.active_deadline_seconds,
    )


def shown(status: SimulatedPodStatus) -> Shown:
    """Return the part of a status that changes."""
    containers = (*status.init_container_statuses, *status.container_statuses)
    return status.phase, tuple((_state(container.state), container.restart_count) for container in containers)


def to_show(moment: Moment) -> Shown:
    """Return the part of the status of a moment that changes."""
    return moment.phase, tuple((span.state, span.restarts) for span in (*moment.init, *moment.main))


def _state(state: SimulatedContainerState) -> str:
    return "running" if state.running is not None else "terminated" if state.terminated is not None else "waiting"


def status(pod: SimulatedPod, script: Script, moment: Moment, began: float, now: float, place: PodAddresses) -> Json:
    """Return the status of a pod at a moment, as a strategic merge patch; ``now`` is the time of the write."""
    uid = pod.metadata.uid
    running = moment.phase == "Running"
    result: Json = {
        "phase": moment.phase,
        "startTime": stamp(began),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "conditions": _conditions(moment, began, now),
        "containerStatuses": [
            _container(container, span, f"{uid}-{number}", ready=running and span.state == "running")
            for number, (container, span) in enumerate(zip(script.main, moment.main, strict=True))
        ],
    }
    if script.init:
        result["initContainerStatuses"] = [
            _container(container, span, f"{uid}-i{number}", ready=_init_ready(container, span))
            for number, (container, span) in enumerate(zip(script.init, moment.init, strict=True))
        ]
    if moment.phase != "Pending":
        result |= {"podIP": place.pod_ip, "podIPs": [{"ip": place.pod_ip}]}
    result |= {key: text for key, text in (("reason", moment.reason), ("message", moment.message)) if text}
    return result


def unreadable(fault: pod_stages.AnnotationError, began: float) -> Json:
    """Return the status of a pod with invalid annotations: it fails."""
    return {"phase": "Failed", "reason": "InvalidAnnotation", "message": str(fault), "startTime": stamp(began)}


def _conditions(moment: Moment, began: float, now: float) -> list[Json]:
    at_work = moment.phase == "Running" and all(span.state == "running" for span in moment.main)
    created = moment.initialized is not None or any(span.state != "waiting" for span in moment.init)
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(moment.phase, "ContainersNotReady")
    done = "PodCompleted" if moment.phase == "Succeeded" else None
    turned = max((span.since for span in moment.main), default=now) if moment.phase != "Pending" else began
    initialized = moment.initialized if moment.initialized is not None else began
    return [
        condition("PodReadyToStartContainers", created and not moment.over, stamp(now if moment.over else began)),
        condition("Initialized", moment.initialized is not None, stamp(initialized), "ContainersNotInitialized", done),
        condition("Ready", at_work, stamp(turned), why),
        condition("ContainersReady", at_work, stamp(turned), why),
    ]


def _init_ready(container: pod_stages.Container, span: Span) -> bool:
    if container.sidecar:
        return span.state == "running"
    return span.state == "terminated" and span.last is not None and span.last.code == 0


def _container(container: pod_stages.Container, span: Span, number: str, *, ready: bool) -> Json:
    result: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": f"simulated://{container.image}" if span.state != "waiting" or span.last else "",
        "ready": ready,
        "started": span.state == "running",
        "restartCount": span.restarts,
        "state": _state_of(span, f"simulated://{number}-{span.restarts}"),
    }
    if span.state != "waiting":
        result["containerID"] = f"simulated://{number}-{span.restarts}"
    if span.last is not None and span.state != "terminated":
        before = span.restarts if span.state == "waiting" else span.restarts - 1
        result["lastState"] = {"terminated": _end(span.last, f"simulated://{number}-{before}")}
    return result


def _state_of(span: Span, container_id: str) -> Json:
    if span.state == "running":
        return {"running": {"startedAt": stamp(span.since)}}
    if span.state == "terminated" and span.last is not None:
        return {"terminated": _end(span.last, container_id)}
    return {"waiting": {"reason": span.reason}}


def _end(run: pod_stages.Run, container_id: str) -> Json:
    return {
        "exitCode": run.code,
        "reason": run.reason,
        "startedAt": stamp(run.began),
        "finishedAt": stamp(run.ended),
        "containerID": container_id,
    }


_stamps: dict[int, str] = {}


def stamp(moment: float) -> str:
    """Return a moment in the API's format: whole seconds, UTC."""
    second = int(moment)
    text = _stamps.get(second)
    if text is None:
        if len(_stamps) > 4096:
            _stamps.clear()
        text = _stamps[second] = format_time(datetime.fromtimestamp(second, UTC))
    return text


def micro_stamp(moment: float) -> str:
    """Return a moment in the format of Leases: microseconds, UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def pod_address(number: int) -> str:
    """Return the address with this number in 10.0.0.0/8, one of sixteen million."""
    number = number % 0xFFFFFE + 1
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def address_number(address: str) -> int:
    """Return the number of such an address, 0 for other networks."""
    parts = address.split(".")
    if len(parts) != 4 or parts[0] != "10" or not all(part.isdigit() for part in parts):
        return 0
    return int(parts[1]) << 16 | int(parts[2]) << 8 | int(parts[3])
