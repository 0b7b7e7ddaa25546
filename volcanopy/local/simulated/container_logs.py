"""What `kubectl logs` shows of a simulated container: nothing is run, and the log says so.

The lines follow from the pod alone, so they are the same whenever they are asked for.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from volcanopy.local.simulated import pod_stages, pod_status
from volcanopy.local.simulated.pod_stages import AnnotationError, Stages

_PREFIX = "simulated:"


class Line(NamedTuple):
    """One line of a log: when it was written (as the API writes moments), and its text."""

    at: str
    text: str


class NoLogError(LookupError):
    """There is no log to show, in the words of a real kubelet."""


def lines(pod: Mapping[str, Any], container: str, usual: Stages, *, previous: bool = False) -> list[Line]:
    """The log of a container's present run, or of its previous one. Raises NoLogError."""
    said = _status(pod, container)
    name = pod["metadata"]["name"]
    state: Mapping[str, Any] = said.get("state") or {}
    # While a restart is waited for, the log is that of the run before.
    if previous or "waiting" in state:
        state = said.get("lastState") or {}
    if "terminated" in state:
        return list(_of_run(pod, container, usual, state["terminated"]["startedAt"], state["terminated"]))
    if "running" in state:
        return list(_of_run(pod, container, usual, state["running"]["startedAt"], None))
    if previous:
        raise NoLogError(f'previous terminated container "{container}" in pod "{name}" not found')
    reason = ((said.get("state") or {}).get("waiting") or {}).get("reason") or "ContainerCreating"
    raise NoLogError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def is_running(pod: Mapping[str, Any], container: str) -> bool:
    """Whether more may be added to the log of the container's present run."""
    return "running" in (_status(pod, container).get("state") or {})


def run_number(pod: Mapping[str, Any], container: str) -> int:
    """Which run of the container the log is of."""
    return int(_status(pod, container).get("restartCount", 0))


def text(found: list[Line], query: Mapping[str, str], now: float) -> bytes:
    """The lines as the query of a log request wants them: tailLines, sinceSeconds, sinceTime, timestamps, limitBytes."""
    since = query.get("sinceTime", "")
    if "sinceSeconds" in query:
        since = pod_status.stamp(now - int(query["sinceSeconds"]))
    if since:
        found = [line for line in found if line.at >= since]
    if "tailLines" in query:
        count = int(query["tailLines"])
        found = found[-count:] if count > 0 else []
    stamped = query.get("timestamps") in {"true", "1"}
    body = "".join(f"{line.at} {line.text}\n" if stamped else f"{line.text}\n" for line in found).encode()
    return body[: int(query["limitBytes"])] if "limitBytes" in query else body


def _status(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    told = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    found: Mapping[str, Any] = next((one for one in told if one["name"] == container), {})
    return found


def _of_run(
    pod: Mapping[str, Any], container: str, usual: Stages, began: str, end: Mapping[str, Any] | None
) -> Iterator[Line]:
    metadata, spec = pod["metadata"], pod["spec"]
    where = f"pod {metadata.get('namespace', 'default')}/{metadata['name']} on node {spec['nodeName']}"
    yield Line(began, f"{_PREFIX} container {container} of {where} started at {began}")
    found = next(one for one in (*spec["containers"], *(spec.get("initContainers") or ())) if one["name"] == container)
    words = [*(found.get("command") or ()), *(found.get("args") or ())]
    what = f"the command {json.dumps(words, ensure_ascii=False)}" if words else f"the image {found.get('image', '')}"
    yield Line(began, f"{_PREFIX} {what} is not executed; {_forecast(pod, container, usual)}")
    if end is not None:
        yield Line(end["finishedAt"], f"{_PREFIX} ended with exit code {end['exitCode']} at {end['finishedAt']}")


def _forecast(pod: Mapping[str, Any], container: str, usual: Stages) -> str:
    try:
        script = pod_status.read_script(msgspec.convert(pod, pod_status.Pod), usual)
    except AnnotationError as fault:
        return str(fault)
    plan = next(one for one in (*script.main, *script.init) if one.name == container)
    if plan.duration == pod_stages.FOREVER:
        return "it runs until it is stopped"
    code = plan.code(run_number(pod, container))
    return f"it exits with code {code} after {plan.duration:.3g}s"
