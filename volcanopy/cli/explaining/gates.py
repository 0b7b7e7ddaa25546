"""The gates of a job, from what its BatchJob, PodGroup and queue say: each with a tick, or with what is missing.

The scheduler names the first gate that a job does not pass. What it must have passed before has a tick, what it would be
asked next has none yet.
"""

from collections.abc import Mapping, Sequence

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.explaining.account import Gate, Mark, counted
from volcanopy.cli.framework.kinds import read, spec_of, status_of
from volcanopy.cli.jobs.status import minimum, queue
from volcanopy.kube.client.kinds import Json

NAMES = ("admitted", "enqueued", "share", "gang", "topology", "nodes")
"""The gates in the order in which they are told."""
_ASKED = ("admitted", "enqueued", "gang", "share", "topology", "nodes")
"""The same in the order in which they are asked: whether the gang is there is asked before its queue's share."""
_ENQUEUED = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
_BEFORE = {"queue": "admitted", "quota": "enqueued", "overcommit": "enqueued"}
_EITHER = {"share": "share", "capability": "share", "limits": "share", "gang": "gang", "topology": "topology"}


def is_enqueued(group: Json | None) -> bool:
    """Whether the scheduler has let the job's pods be made."""
    return group is not None and status_of(group).get("phase") in _ENQUEUED


def place_of(gate: str, *, enqueued: bool) -> str:
    """Where a gate of the scheduler stands among those that are told: what it asks twice, by when it asked."""
    if gate in _BEFORE:
        return _BEFORE[gate]
    if not enqueued:
        return "enqueued"
    return _EITHER.get(gate, "nodes")


def gates(job: Json, group: Json | None, found: Json | None, why: Json) -> tuple[Gate, ...]:
    """All gates of a job that waits; ``why`` is its group's explanation, ``found`` its queue, if it may be read."""
    enqueued = is_enqueued(group)
    held = place_of(why["gate"], enqueued=enqueued) if why.get("gate") else ""
    made = []
    for name in NAMES:
        mark = _mark(name, held, group, enqueued=enqueued)
        made.append(Gate(name, mark, _text(name, mark, job, found, why)))
    return tuple(made)


def passed(job: Json, group: Json | None, found: Json | None) -> tuple[Gate, ...]:
    """All gates of a job that waits for nothing any more."""
    made = []
    for name in NAMES:
        mark = Mark.NEEDLESS if name == "topology" and not _wants_to_be_close(group) else Mark.PASSED
        made.append(Gate(name, mark, _text(name, mark, job, found, {})))
    return tuple(made)


def _mark(name: str, held: str, group: Json | None, *, enqueued: bool) -> Mark:
    if name == held:
        return Mark.HELD
    if name == "topology" and not _wants_to_be_close(group):
        return Mark.NEEDLESS
    if held:
        before = _ASKED.index(name) < _ASKED.index(held)
        # A queue that has closed since holds back what it had let in.
        return Mark.PASSED if before or (name == "enqueued" and enqueued) else Mark.UNASKED
    return Mark.PASSED if enqueued and name in {"admitted", "enqueued"} else Mark.UNASKED


def _wants_to_be_close(group: Json | None) -> bool:
    if group is None:
        return False
    spec = spec_of(group)
    return bool(
        spec.get("networkTopology") or any(one.get("networkTopology") for one in spec.get("subGroupPolicy") or ())
    )


def _text(name: str, mark: Mark, job: Json, found: Json | None, why: Json) -> str:
    if mark is Mark.HELD:
        return _missing(why)
    if mark is Mark.PASSED and name == "admitted":
        return (
            f"queue {queue(read(BatchJob, job))} is open"
            if found is not None and _open(found)
            else f"in queue {queue(read(BatchJob, job))}"
        )
    if mark is Mark.PASSED and name == "gang":
        status = status_of(job)
        there = sum(int(status.get(kind, 0)) for kind in ("pending", "running", "succeeded", "failed"))
        return f"{counted(there, 'pod')} of {minimum(read(BatchJob, job))} needed {'is' if there == 1 else 'are'} there"
    numbers = why.get("numbers") or {}
    fit = numbers.get("fit", "0")
    if mark is Mark.UNASKED and name == "nodes" and fit != "0":
        return f"{fit} of {numbers.get('needed', minimum(read(BatchJob, job)))} pods had found a place"
    return ""


def _open(found: Json) -> bool:
    return (status_of(found).get("state") or "Open") == "Open"


def _missing(why: Json) -> str:
    """The number that is missing, or else what has to change."""
    numbers = why.get("numbers") or {}
    said = []
    if numbers.get("fit", "0") != "0":
        said.append(f"{numbers['fit']} of {numbers.get('needed')} pods fit")
    short = _short(why.get("amounts") or {})
    if short and why.get("gate") == "nodes" and why.get("nodes"):
        said.append(f"on the nearest node {', '.join(short)}")
    else:
        said += short
    return "; ".join(said) or str(why.get("unblockedBy") or why.get("message") or "")


def _short(amounts: Mapping[str, Mapping[str, str]]) -> Sequence[str]:
    """Of each resource that is short: what is wanted, and what is free of how much."""
    from volcanopy.api import quantity

    wanted, free, limit = (amounts.get(kind) or {} for kind in ("requested", "available", "limit"))
    said = []
    for name, asked in wanted.items():
        has = free.get(name, "0")
        if (name not in free and name not in limit) or quantity.parse(asked) <= quantity.parse(has):
            continue
        whole = f" of {limit[name]}" if name in limit else ""
        said.append(f"{name}: {asked} wanted, {has} free{whole}")
    return said
