"""What keeps pods from running: which of them wait for what, crash, or ended badly, and how many say the same."""

from collections.abc import Sequence

from volcanopy.cli.explaining.account import PodsAlike, counted, listed
from volcanopy.cli.framework.kinds import read, status_of
from volcanopy.cli.jobs.pods import Pod, task_of
from volcanopy.kube.client.kinds import Json

UNPLACED, STUCK, CRASHING, FAILED, LEAVING, STARTING = (
    "waits for a node",
    "cannot start",
    "crashes",
    "failed",
    "is leaving",
    "is starting",
)
"""How a pod that does not run as it should stands."""
_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", ""})
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_ORDER = (STUCK, CRASHING, FAILED, UNPLACED, STARTING, LEAVING)


def alike(pods: Sequence[Json]) -> tuple[PodsAlike, ...]:
    """The pods that do not run, or did not end well, those together of which the same is to be said: the worst first."""
    found: dict[tuple[str, str], list[Json]] = {}
    for pod in pods:
        said = _said(pod)
        if said is not None:
            found.setdefault(said, []).append(pod)
    groups = [
        PodsAlike(
            state,
            message,
            tuple(one["metadata"]["name"] for one in members),
            task_of(read(Pod, members[0])) if len({task_of(read(Pod, one)) for one in members}) == 1 else "",
        )
        for (state, message), members in found.items()
    ]
    return tuple(sorted(groups, key=lambda one: _ORDER.index(one.state)))


def trouble(groups: Sequence[PodsAlike]) -> str:
    """What keeps pods that have a node from running, as a clause; empty if nothing does."""
    worst = next((one for one in groups if one.state in {STUCK, CRASHING}), None)
    if worst is None:
        return ""
    number = len(worst.names)
    which = f"pod {worst.names[0]}" if number == 1 else f"{counted(number, 'pod')} ({listed(worst.names)})"
    if worst.state == STUCK:
        return f"{which}: {worst.message}"
    return f"{which} {'crashes' if number == 1 else 'crash'} again and again: {worst.message}"


def _said(pod: Json) -> tuple[str, str] | None:
    """How a pod stands and why; None for one that runs or has ended well."""
    status = status_of(pod)
    phase = status.get("phase") or "Pending"
    if phase == "Succeeded":
        return None
    if phase == "Failed":
        return FAILED, _end(status)
    if pod["metadata"].get("deletionTimestamp"):
        return LEAVING, ""
    if not (pod.get("spec") or {}).get("nodeName"):
        return UNPLACED, _unplaced(status)
    return _containers(status) or ((STARTING, "") if phase == "Pending" else None)


def _unplaced(status: Json) -> str:
    conditions = status.get("conditions") or ()
    untold: Json = {}
    unplaced = (one for one in conditions if one.get("type") == "PodScheduled" and one.get("status") == "False")
    said = next(unplaced, untold)
    return " ".join(str(said.get("message") or "").split())


def _containers(status: Json) -> tuple[str, str] | None:
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for one in every:
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason in _HARMLESS:
            continue
        if reason == "CrashLoopBackOff":
            last = (one.get("lastState") or {}).get("terminated") or {}
            return CRASHING, f"container {one.get('name')} {_ended(last)}" if last else reason
        if reason in _IMAGE:
            detail = " ".join(str(waiting.get("message") or "").split())
            return STUCK, f"image {one.get('image')} cannot be had ({reason}{': ' + detail if detail else ''})"
        detail = " ".join(str(waiting.get("message") or "").split())
        return STUCK, f"container {one.get('name')}: {reason}{': ' + detail if detail else ''}"
    return None


def _end(status: Json) -> str:
    """How a failed pod ended."""
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        ended = (one.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"container {one.get('name')} {_ended(ended)}"
    said = ": ".join(str(part) for part in (status.get("reason"), status.get("message")) if part)
    return " ".join(said.split())


def _ended(ended: Json) -> str:
    reason = ended.get("reason") or ""
    told = f" ({reason})" if reason and reason != "Error" else ""
    return f"ended with exit code {ended.get('exitCode')}{told}"
