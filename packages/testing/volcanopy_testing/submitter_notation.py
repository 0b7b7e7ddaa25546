"""World notation for limits of users and groups in queues, and for submitters of jobs.

``limit.user.ana+bo.cpu=4`` is an entry for two users, ``limit.user.*.running=2`` one for all others, and
``limit.group.phd.queued=3`` one for a group; keys with the same users or groups make one entry. The entries are in the
order of their first keys. ``maxrunning=`` and ``maxqueued=`` are the queue's own, ``administrators=ana+bo`` are users. A job
has ``user=ana groups=phd+staff``.
"""

import json
from collections.abc import Mapping
from typing import Any

from volcanopy.api import core, names

_GPU = "nvidia.com/gpu"
_COUNTS = {"running": "max_running_jobs", "queued": "max_queued_jobs"}


def number(values: Mapping[str, str], key: str) -> int | None:
    """Return an optional number."""
    return int(values[key]) if key in values else None


def limits(values: Mapping[str, str]) -> tuple[core.QueueLimit, ...]:
    """Return the limit entries of a queue."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for key, value in values.items():
        if not key.startswith("limit."):
            continue
        _, kind, rest = key.split(".", 2)
        who, _, what = rest.partition(".")
        if kind not in {"user", "group"} or not who or not what:
            raise ValueError(f"{key!r} is not a limit: use limit.user.ana.cpu=4 or limit.group.phd.running=2")
        entry = entries.setdefault((kind, who), {"resources": {}})
        if what in _COUNTS:
            entry[_COUNTS[what]] = int(value)
        else:
            entry["resources"][_GPU if what == "gpu" else what] = value
        entry[f"{kind}s"] = tuple(who.split("+"))
    return tuple(core.QueueLimit(**entry) for entry in entries.values())


def administrators(values: Mapping[str, str]) -> core.Subjects | None:
    """Return the administrators of a queue."""
    users = values.get("administrators")
    return None if users is None else core.Subjects(users=tuple(users.split("+")))


def origin(values: Mapping[str, str]) -> dict[str, str]:
    """Return the submitter annotations that admission writes for the user of a job."""
    if "user" not in values:
        return {}
    groups = [group for group in values.get("groups", "").split("+") if group]
    return {names.SUBMITTED_BY: values["user"], names.SUBMITTER_GROUPS: json.dumps(groups)}
