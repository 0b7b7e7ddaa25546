"""Logs of simulated containers: start, command and end of the run, derived from the pod alone."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from volcanopy_local.log_queries import NoLogError, selected

_PREFIX = "simulated:"
_COMMAND = 80
"""The most characters of a command in a log."""


class Line(NamedTuple):
    """A line of a log: its time in the API's format, and its text."""

    at: str
    text: str


def lines(pod: Mapping[str, Any], container: str, *, previous: bool = False) -> list[Line]:
    """Return the log of a container's current or previous run. Raises NoLogError."""
    status = _status(pod, container)
    name = pod["metadata"]["name"]
    state: Mapping[str, Any] = status.get("state") or {}
    # Before a restart the log is that of the previous run.
    if previous or "waiting" in state:
        state = status.get("lastState") or {}
    if "terminated" in state:
        return list(_of_run(pod, container, state["terminated"]["startedAt"], state["terminated"]))
    if "running" in state:
        return list(_of_run(pod, container, state["running"]["startedAt"], None))
    if previous:
        raise NoLogError(f'previous terminated container "{container}" in pod "{name}" not found')
    reason = ((status.get("state") or {}).get("waiting") or {}).get("reason") or "ContainerCreating"
    raise NoLogError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def is_running(pod: Mapping[str, Any], container: str) -> bool:
    """Return whether the container is running, so that its log may grow."""
    return "running" in (_status(pod, container).get("state") or {})


def run_number(pod: Mapping[str, Any], container: str) -> int:
    """Return the number of the container's current run."""
    return int(_status(pod, container).get("restartCount", 0))


def text(lines: list[Line], query: Mapping[str, str], now: float) -> bytes:
    """Return the lines that a query selects as text. Raises NoLogError."""
    return selected([f"{line.at} {line.text}\n".encode() for line in lines], query, now)


def _status(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return next((entry for entry in statuses if entry["name"] == container), {})


def _of_run(pod: Mapping[str, Any], container: str, began: str, end: Mapping[str, Any] | None) -> Iterator[Line]:
    metadata, spec = pod["metadata"], pod["spec"]
    where = f"pod {metadata.get('namespace', 'default')}/{metadata['name']} on node {spec['nodeName']}"
    yield Line(began, f"{_PREFIX} container {container} of {where} started at {began}")
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    body = next(body for body in containers if body["name"] == container)
    command = [*(body.get("command") or ()), *(body.get("args") or ())]
    text = json.dumps(command, ensure_ascii=False)
    text = text if len(text) <= _COMMAND else f"{text[: _COMMAND - 3]}..."
    what = f"the command {text}" if command else f"the image {body.get('image', '')}"
    yield Line(began, f"{_PREFIX} {what} is not executed")
    if end is not None:
        yield Line(end["finishedAt"], f"{_PREFIX} ended with exit code {end['exitCode']} at {end['finishedAt']}")
