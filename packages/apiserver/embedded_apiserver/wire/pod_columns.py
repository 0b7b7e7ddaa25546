"""Columns of `kubectl get pods`: status, ready containers, restarts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from embedded_apiserver.wire.columns import AGE, NAME, Column, age_since

Json = Any
Pod = Mapping[str, Any]


def _condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _sidecars(pod: Pod) -> set[str]:
    """The init containers that keep running beside the others."""
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return {container.get("name", "") for container in containers if container.get("restartPolicy") == "Always"}


def _ended(prefix: str, terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Pod, sidecars: set[str]) -> str | None:
    """The status of a pod whose init containers are not done; None when they are."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        if terminated is not None:
            return _ended("Init:", terminated)
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len((pod.get('spec') or {}).get('initContainers') or ())}"
    return None


def _running(pod: Pod, reason: str) -> str:
    """The status that the pod's ordinary containers give it."""
    has_running, failure = False, ""
    for status in reversed((pod.get("status") or {}).get("containerStatuses") or ()):
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif (terminated := state.get("terminated")) is not None:
            reason = _ended("", terminated)
            failure = reason if terminated.get("exitCode", 0) else failure
        elif status.get("ready") and state.get("running") is not None:
            has_running = True
    if reason != "Completed":
        return reason
    if has_running and _condition(pod, "Ready").get("status") == "True":
        return "Running"
    return failure or ("NotReady" if has_running else reason)


def pod_status(pod: Pod) -> str:
    """The STATUS word of a pod: the phase, or what explains it better."""
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    starting = _initializing(pod, _sidecars(pod))
    if starting is None or _condition(pod, "Initialized").get("status") == "True":
        reason = _running(pod, starting or reason)
    else:
        reason = starting
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _counted(pod: Pod) -> list[Mapping[str, Any]]:
    """The containers whose readiness and restarts count: the ordinary ones and the sidecars."""
    status = pod.get("status") or {}
    sidecars = _sidecars(pod)
    beside = [container for container in status.get("initContainerStatuses") or () if container.get("name") in sidecars]
    return [*beside, *(status.get("containerStatuses") or ())]


def _ready(pod: Pod, _: datetime) -> str:
    total = len((pod.get("spec") or {}).get("containers") or ()) + len(_sidecars(pod))
    ready = sum(
        1 for status in _counted(pod) if status.get("ready") and (status.get("state") or {}).get("running") is not None
    )
    return f"{ready}/{total}"


def _restarts(pod: Pod, now: datetime) -> str:
    counted: Sequence[Mapping[str, Any]] = _counted(pod)
    if _initializing(pod, _sidecars(pod)) is not None and _condition(pod, "Initialized").get("status") != "True":
        counted = (pod.get("status") or {}).get("initContainerStatuses") or ()
    restarts = sum(status.get("restartCount", 0) for status in counted)
    ends = [((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for status in counted]
    last = max((end for end in ends if end), default=None)
    return f"{restarts} ({age_since(last, now)} ago)" if restarts and last else str(restarts)


def _gates(pod: Pod, _: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    passed = sum(1 for gate in gates if _condition(pod, gate.get("conditionType", "")).get("status") == "True")
    return f"{passed}/{len(gates)}" if gates else "<none>"


def _first_ip(pod: Pod, _: datetime) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or "<none>"


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready, description="Ready containers out of all containers of the pod."),
    Column("Status", lambda pod, _: pod_status(pod), description="The state of the pod in one word."),
    Column("Restarts", _restarts, description="How often containers of the pod were restarted, and when last."),
    AGE,
    Column("IP", _first_ip, priority=1, description="The pod's first address."),
    Column("Node", lambda pod, _: (pod.get("spec") or {}).get("nodeName") or "<none>", priority=1,
           description="The node that the pod is bound to."),
    Column("Nominated Node", lambda pod, _: (pod.get("status") or {}).get("nominatedNodeName") or "<none>", priority=1,
           description="The node on which resources are being freed for the pod."),
    Column("Readiness Gates", _gates, priority=1, description="Passed readiness gates out of all."),
)  # fmt: skip
