"""In worlds: whom the limits of a queue are about, and who asked for a job.

``limit.user.ana+bo.cpu=4`` is an entry for two users, ``limit.user.*.running=2`` one for all others, and
``limit.group.phd.queued=3`` one for a group; what stands of the same users or groups is one entry. The entries are in the
order in which they are first spoken of. ``maxrunning=`` and ``maxqueued=`` are the queue's own. A job says
``user=ana groups=phd+staff``.
"""

import json
from collections.abc import Mapping
from typing import Any

from volcanopy.api import core, names

_GPU = "nvidia.com/gpu"
_COUNTS = {"running": "max_running_jobs", "queued": "max_queued_jobs"}


def number(said: Mapping[str, str], key: str) -> int | None:
    """A number that may be left out."""
    return int(said[key]) if key in said else None


def limits(said: Mapping[str, str]) -> tuple[core.QueueLimit, ...]:
    """The entries that the words of a queue make."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for key, value in said.items():
        if not key.startswith("limit."):
            continue
        _, kind, rest = key.split(".", 2)
        who, _, what = rest.partition(".")
        if kind not in {"user", "group"} or not who or not what:
            raise ValueError(f"{key!r} limits nobody: say limit.user.ana.cpu=4 or limit.group.phd.running=2")
        entry = entries.setdefault((kind, who), {"resources": {}})
        if what in _COUNTS:
            entry[_COUNTS[what]] = int(value)
        else:
            entry["resources"][_GPU if what == "gpu" else what] = value
        entry[f"{kind}s"] = tuple(who.split("+"))
    return tuple(core.QueueLimit(**entry) for entry in entries.values())


def origin(said: Mapping[str, str]) -> dict[str, str]:
    """The annotations that admission would have written into what belongs to the user whom a job names."""
    if "user" not in said:
        return {}
    groups = [one for one in said.get("groups", "").split("+") if one]
    return {names.SUBMITTED_BY: said["user"], names.SUBMITTER_GROUPS: json.dumps(groups)}
