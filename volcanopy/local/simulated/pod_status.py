"""The slice of pods that the simulated kubelet reads, and the status that it writes for a moment of a pod's life."""

from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import field

from volcanopy.api import core
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.local.simulated import pod_stages
from volcanopy.local.simulated.pod_stages import Moment, Script, Span, Stages


class Meta(core.Meta, frozen=True, kw_only=True, gc=False):
    """Metadata with the time that a pod is given to stop."""

    deletion_grace_period_seconds: int | None = None


class PodSpec(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """What a pod is made of, and where it runs."""

    node_name: str = ""
    restart_policy: pod_stages.RestartPolicy = "Always"
    containers: tuple[core.Container, ...] = ()
    init_containers: tuple[core.Container, ...] = ()
    active_deadline_seconds: int | None = None


class Running(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """A container's state ``running``."""


class ContainerState(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """How a container stands: ``waiting`` if neither of these."""

    running: Running | None = None
    terminated: core.Terminated | None = None


class ContainerStatus(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """What the API server was last told of a container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """What the API server was last told of a pod."""

    phase: str = "Pending"
    start_time: datetime | None = None
    pod_ip: str = field(name="podIP", default="")
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the pod has come to its end."""
        return self.phase in {"Succeeded", "Failed"}


class Pod(core.ReadModel, frozen=True, kw_only=True, gc=False):
    """A pod as its kubelet sees it."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PODS: Kind[Pod] = Kind("", "v1", "Pod", "pods", True, Pod)

Shown = tuple[str, tuple[tuple[str, int], ...]]
"""What of a status tells one moment from another: the phase; for each container its state and its restarts."""


class Place(NamedTuple):
    """Where a pod runs, as its status says it."""

    pod_ip: str
    host_ip: str


def read_script(pod: Pod, usual: Stages) -> Script:
    """What will happen to the pod. Raises AnnotationError."""
    return pod_stages.script(
        pod.metadata.annotations,
        ((one.name, one.image) for one in pod.spec.containers),
        ((one.name, one.image, one.restart_policy) for one in pod.spec.init_containers),
        pod.spec.restart_policy,
        pod.metadata.uid,
        usual,
        pod.spec.active_deadline_seconds,
    )


def shown(status: PodStatus) -> Shown:
    """What a status shows."""
    told = (*status.init_container_statuses, *status.container_statuses)
    return status.phase, tuple((_state(one.state), one.restart_count) for one in told)


def to_show(moment: Moment) -> Shown:
    """What the status of a moment shows."""
    return moment.phase, tuple((span.state, span.restarts) for span in (*moment.init, *moment.main))


def _state(state: ContainerState) -> str:
    return "running" if state.running is not None else "terminated" if state.terminated is not None else "waiting"


def status(pod: Pod, script: Script, moment: Moment, began: float, now: float, place: Place) -> Json:
    """The status of a pod at a moment, as a strategic merge patch; ``now`` is when it is told."""
    uid = pod.metadata.uid
    running = moment.phase == "Running"
    made: Json = {
        "phase": moment.phase,
        "startTime": stamp(began),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "conditions": _conditions(moment, began, now),
        "containerStatuses": [
            _container(one, span, f"{uid}-{number}", ready=running and span.state == "running")
            for number, (one, span) in enumerate(zip(script.main, moment.main, strict=True))
        ],
    }
    if script.init:
        made["initContainerStatuses"] = [
            _container(one, span, f"{uid}-i{number}", ready=_init_ready(one, span))
            for number, (one, span) in enumerate(zip(script.init, moment.init, strict=True))
        ]
    if moment.phase != "Pending":
        made |= {"podIP": place.pod_ip, "podIPs": [{"ip": place.pod_ip}]}
    made |= {key: text for key, text in (("reason", moment.reason), ("message", moment.message)) if text}
    return made


def unreadable(fault: pod_stages.AnnotationError, began: float) -> Json:
    """The status of a pod whose annotations make no sense: it fails, and says why."""
    return {"phase": "Failed", "reason": "InvalidAnnotation", "message": str(fault), "startTime": stamp(began)}


def _conditions(moment: Moment, began: float, now: float) -> list[Json]:
    at_work = moment.phase == "Running" and all(span.state == "running" for span in moment.main)
    created = moment.initialized is not None or any(span.state != "waiting" for span in moment.init)
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(moment.phase, "ContainersNotReady")
    turned = max((span.since for span in moment.main), default=now) if moment.phase != "Pending" else began
    initialized = moment.initialized if moment.initialized is not None else began
    return [
        _condition("PodReadyToStartContainers", created and not moment.over, now if moment.over else began),
        _condition("Initialized", moment.initialized is not None, initialized, "ContainersNotInitialized"),
        _condition("Ready", at_work, turned, why),
        _condition("ContainersReady", at_work, turned, why),
    ]


def _condition(kind: str, holds: bool, since: float, why: str = "") -> Json:
    made: Json = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": stamp(since)}
    if why and not holds:
        made["reason"] = why
    # Told in any case: a patch leaves what it does not name.
    return made if "reason" in made or not why else made | {"reason": None}


def _init_ready(container: pod_stages.Container, span: Span) -> bool:
    if container.sidecar:
        return span.state == "running"
    return span.state == "terminated" and span.last is not None and span.last.code == 0


def _container(container: pod_stages.Container, span: Span, number: str, *, ready: bool) -> Json:
    made: Json = {
        "name": container.name,
        "image": container.image,
        "imageID": f"simulated://{container.image}" if span.state != "waiting" or span.last else "",
        "ready": ready,
        "started": span.state == "running",
        "restartCount": span.restarts,
        "state": _told(span, f"simulated://{number}-{span.restarts}"),
    }
    if span.state != "waiting":
        made["containerID"] = f"simulated://{number}-{span.restarts}"
    if span.last is not None and span.state != "terminated":
        before = span.restarts if span.state == "waiting" else span.restarts - 1
        made["lastState"] = {"terminated": _end(span.last, f"simulated://{number}-{before}")}
    return made


def _told(span: Span, container_id: str) -> Json:
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
    """A moment as the API writes it: whole seconds, UTC."""
    second = int(moment)
    found = _stamps.get(second)
    if found is None:
        if len(_stamps) > 4096:
            _stamps.clear()
        found = _stamps[second] = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


def micro_stamp(moment: float) -> str:
    """A moment as Leases write it: microseconds, UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def pod_address(number: int) -> str:
    """The address of this number in 10.0.0.0/8, which has room for sixteen million."""
    number = number % 0xFFFFFE + 1
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def address_number(address: str) -> int:
    """The number of such an address, 0 for one of another network."""
    parts = address.split(".")
    if len(parts) != 4 or parts[0] != "10" or not all(part.isdigit() for part in parts):
        return 0
    return int(parts[1]) << 16 | int(parts[2]) << 8 | int(parts[3])
