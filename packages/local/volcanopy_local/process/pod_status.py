"""Statuses of pods on process nodes, as a kubelet writes them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcanopy.kube.client.kinds import Json
from volcanopy_local.conditions import condition
from volcanopy_local.process.container_spec import is_sidecar
from volcanopy_local.process.program_run import End
from volcanopy_local.simulated.pod_status import stamp

RUNTIME = "process"
EVICTED = "Evicted"
"""The reason of a pod that failed not by itself, but by an eviction."""
_SIGNALS = {137: "SIGKILL", 143: "SIGTERM"}


def waiting(reason: str, message: str = "") -> Json:
    """A container state `waiting`."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


@dataclass
class ContainerRecord:
    """A container of a pod and what it does: `state` and `last_state` as the API has them."""

    container: Json
    init: bool
    restarts: int = 0
    state: Json = field(default_factory=lambda: waiting("ContainerCreating"))
    last_state: Json = field(default_factory=dict)
    ready: bool = False
    started: bool = False

    @property
    def name(self) -> str:
        """The name of the container."""
        return str(self.container["name"])

    @property
    def place(self) -> str:
        """The field path of the container in its pod."""
        return place_of(self.name, init=self.init)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that has terminated for good, else None."""
        terminated = self.state.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])

    def run(self, uid: str, began: float) -> None:
        """Enter the state `running`."""
        self._remember()
        self.state = {"running": {"startedAt": stamp(began)}}
        self.container_id = container_id(uid, self.name, self.restarts)

    def end(self, uid: str, end: End, reason: str = "", message: str = "") -> None:
        """Enter the state `terminated`."""
        self._remember()
        self.ready = self.started = False
        terminated: Json = {
            "exitCode": end.code,
            "reason": reason or ("Completed" if end.code == 0 else "OOMKilled" if end.out_of_memory else "Error"),
            "startedAt": stamp(end.began),
            "finishedAt": stamp(end.ended),
            "containerID": self.container_id or container_id(uid, self.name, self.restarts),
        }
        if end.code in _SIGNALS and not message:
            message = f"terminated by {_SIGNALS[end.code]}"
        if message:
            terminated["message"] = message
        self.state = {"terminated": terminated}

    def wait(self, reason: str, message: str = "") -> None:
        """Enter the state `waiting`."""
        self._remember()
        self.ready = self.started = False
        self.state = waiting(reason, message)

    container_id: str = ""

    def _remember(self) -> None:
        if "terminated" in self.state:
            self.last_state = self.state

    def status(self) -> Json:
        """The container status of the API."""
        result: Json = {
            "name": self.name,
            "image": self.container.get("image", ""),
            "imageID": "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }
        if self.container_id:
            result["containerID"] = self.container_id
        return result


def place_of(container: str, *, init: bool) -> str:
    """The field path of a container in its pod, as Events have it."""
    return f"spec.{'initContainers' if init else 'containers'}{{{container}}}"


def place_in(pod: Json, name: str) -> str:
    """The field path of a container of this name."""
    return place_of(name, init=any(item["name"] == name for item in pod["spec"].get("initContainers") or ()))


def container_id(uid: str, name: str, run: int) -> str:
    """The id of a run of a container."""
    return f"{RUNTIME}://{uid}-{name}-{run}"


def restored(pod: Json, container: Json, *, init: bool) -> ContainerRecord:
    """The container as the status of its pod has it; a run in progress is kept as it is."""
    key = "initContainerStatuses" if init else "containerStatuses"
    statuses = (pod.get("status") or {}).get(key) or ()
    status = next((status for status in statuses if status["name"] == container["name"]), None)
    if status is None:
        return ContainerRecord(container, init)
    state = ContainerRecord(
        container, init, status.get("restartCount", 0), status.get("state") or {}, status.get("lastState") or {}
    )
    state.container_id = status.get("containerID", "")
    return state


def all_of(pod: Mapping[str, Any]) -> list[Json]:
    """The statuses of all containers of a pod."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def phase_of(pod: Json, states: Sequence[ContainerRecord]) -> str:
    """The phase of a pod: Pending until the first container has started, then as its containers ended."""
    main = [state for state in states if not state.init]
    policy = pod["spec"].get("restartPolicy", "Always")
    before = [state for state in states if state.init and not is_sidecar(state.container)]
    if policy == "Never" and any(state.exit_code not in {None, 0} for state in before):
        return "Failed"
    codes = [state.exit_code for state in main]
    is_final = policy == "Never" or (policy == "OnFailure" and not any(codes))
    if is_final and None not in codes and not any("running" in state.state for state in states):
        return "Failed" if any(codes) else "Succeeded"
    if any("running" in state.state or state.last_state or state.exit_code is not None for state in main):
        return "Running"
    return "Pending"


def status(
    phase: str,
    states: Sequence[ContainerRecord],
    began: float,
    now: float,
    addresses: Mapping[str, str],
    *,
    reason: str = "",
    message: str = "",
) -> Json:
    """The status as a strategic merge patch; `addresses` has `pod` and `host`."""
    has_started = any(
        state.last_state or state.state.keys() & {"running", "terminated"} for state in states if not state.init
    )
    initialized = has_started or all(
        state.exit_code == 0 or is_sidecar(state.container) for state in states if state.init
    )
    ready = phase == "Running" and all(state.ready for state in states if not state.init or is_sidecar(state.container))
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    done = "PodCompleted" if phase == "Succeeded" else None
    result: Json = {
        "phase": phase,
        "startTime": stamp(began),
        "hostIP": addresses["host"],
        "hostIPs": [{"ip": addresses["host"]}],
        "podIP": addresses["pod"],
        "podIPs": [{"ip": addresses["pod"]}],
        "conditions": [
            condition("PodReadyToStartContainers", phase in {"Pending", "Running"}, stamp(now)),
            condition("Initialized", initialized, stamp(now), "ContainersNotInitialized", done),
            condition("Ready", ready, stamp(now), why),
            condition("ContainersReady", ready, stamp(now), why),
        ],
        "containerStatuses": [state.status() for state in states if not state.init],
    }
    if any(state.init for state in states):
        result["initContainerStatuses"] = [state.status() for state in states if state.init]
    if reason:
        result["reason"] = reason
    if message:
        result["message"] = message
    if reason == EVICTED:
        target = condition("DisruptionTarget", True, stamp(now)) | {
            "reason": "TerminationByKubelet",
            "message": message,
        }
        result["conditions"].append(target)
    return result
