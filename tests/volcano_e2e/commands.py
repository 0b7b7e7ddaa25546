"""What the containers of the suites do, for the simulated nodes: how long a command runs, and its exit code.

The suites use few forms of shell commands: ``sleep 10s && exit 3``, ``sleep 5``, ``sleep 10s && xyz`` (no such program).
"""

import re
from collections.abc import Mapping
from typing import Any

from volcanopy_local.simulated.pod_stages import DURATION, EXIT_CODE, START_DELAY, STOP_DELAY

_SLEEP = re.compile(r"^sleep\s+([0-9]+)s?$")
_EXIT = re.compile(r"^exit\s+([0-9]+)$")
_UNKNOWN = re.compile(r"^[xyz]+$|^sh fake\.sh$")
NOT_FOUND = 127
SERVERS = ("nginx", "ray", "pause")
"""Parts of the names of images whose containers run until they are stopped."""


def annotations(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that make a simulated pod behave as its containers would; none where they are unknown."""
    described: dict[str, str] = {}
    if any("ray" in str(container.get("image", "")) for container in spec.get("containers") or ()):
        described[START_DELAY] = "5s"  # a large image: the suite looks for the phase Pending after a while
    if any("trap ''" in " ".join(_command(container)) for container in spec.get("containers") or ()):
        described[STOP_DELAY] = f"{spec.get('terminationGracePeriodSeconds', 30)}s"  # it ignores SIGTERM
    for container in spec.get("containers") or ():
        duration, code = behaviour(container)
        if duration:
            described[f"{DURATION}.{container['name']}"] = duration
        if code:
            described[f"{EXIT_CODE}.{container['name']}"] = str(code)
    return described


def behaviour(container: Mapping[str, Any]) -> tuple[str, int]:
    """Return the duration of a container (empty: the default) and its exit code."""
    words = _command(container)
    if not words:
        image = str(container.get("image", "")).partition(":")[0]
        return ("forever" if any(server in image for server in SERVERS) else ""), 0
    seconds = code = 0
    for step in re.split(r"&&|;|\n", words[-1]):
        match step.strip():
            case text if sleep := _SLEEP.match(text):
                seconds += int(sleep[1])
            case text if ending := _EXIT.match(text):
                code = int(ending[1])
            case text if _UNKNOWN.match(text):
                code = NOT_FOUND
            case text if "sshd -D" in text or "ray start" in text or text == "while true":
                return "forever", 0
    return (f"{seconds}s" if seconds else "100ms" if code else ""), code


def _command(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or ()), *(container.get("args") or ())]
