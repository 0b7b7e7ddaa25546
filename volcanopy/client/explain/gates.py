"""The gates of a job: passed, blocked, or not checked yet, with the numbers of the blocked one.

The scheduler reports the first gate that a job does not pass. Only gates that are certainly passed are reported as
passed: those that were checked before the job was enqueued, and those before the blocked one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcanopy.api import core, quantity
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.gates import GATES, Gate
from volcanopy.client.explain.report import GateRow, GateState
from volcanopy.client.jobs.status import minimum
from volcanopy.client.jobs.status import queue as queue_of

_ENQUEUED = frozenset({"Inqueue", "Running", "Unknown", "Completed"})
_LIMITS = frozenset({Gate.LIMITS, Gate.SHARE, Gate.CAPABILITY})
"""Gates whose order among themselves depends on the configured plugins."""
_QUANTITIES = ("requested", "allocated", "reserved", "tentative", "deserved", "limit")
_OPTIONAL = frozenset({"reserved", "tentative"})
"""Quantities that are left out if they are zero."""


@dataclass(frozen=True)
class Members:
    """What the gates of a job or pod group name: its queue, the pods that must start together and those that exist."""

    queue: str
    minimum: int
    created: int


def members_of(job: BatchJob) -> Members:
    """Return the members of a job."""
    status = job.status
    pods = status.pending + status.running + status.succeeded + status.failed
    return Members(queue_of(job), minimum(job), pods)


def is_enqueued(group: core.PodGroup | None) -> bool:
    """Return whether the scheduler has enqueued the job, so that its pods may be created."""
    return group is not None and group.status.phase in _ENQUEUED


def gate_rows(
    members: Members, group: core.PodGroup | None, queue: core.Queue | None, reason: core.Explanation | None
) -> tuple[GateRow, ...]:
    """Return all gates of a job or pod group that waits; ``reason`` is its pod group's explanation, ``queue`` may be None."""
    blocked = next((gate for gate in GATES if reason is not None and gate == reason.gate), None)
    rows = []
    for gate in GATES:
        state = _state(gate, blocked, group)
        text = (
            _missing(reason) if state is GateState.BLOCKED and reason else _message(gate, state, members, queue, reason)
        )
        rows.append(GateRow(gate.value, state, text))
    return tuple(rows)


def passed_rows(members: Members, group: core.PodGroup | None, queue: core.Queue | None) -> tuple[GateRow, ...]:
    """Return all gates of a job that has passed them."""
    states = {gate: GateState.PASSED if _is_required(gate, group) else GateState.NOT_REQUIRED for gate in GATES}
    return tuple(
        GateRow(gate.value, state, _message(gate, state, members, queue, None)) for gate, state in states.items()
    )


def _state(gate: Gate, blocked: Gate | None, group: core.PodGroup | None) -> GateState:
    if gate is blocked:
        return GateState.BLOCKED
    if not _is_required(gate, group):
        return GateState.NOT_REQUIRED
    passed = _passed(blocked, enqueued=is_enqueued(group))
    return GateState.PASSED if gate in passed else GateState.UNCHECKED


def _passed(blocked: Gate | None, *, enqueued: bool) -> frozenset[Gate]:
    """Return the gates that a job has passed that is blocked at this one, or at none that is known."""
    if not enqueued:
        return frozenset() if blocked in {None, Gate.QUEUE, Gate.ACTIONS} else frozenset({Gate.QUEUE})
    before_pods = frozenset(gate for gate in GATES if gate.before_pods and not gate.before_nodes)
    if blocked in {Gate.QUEUE, Gate.ACTIONS}:
        return before_pods
    passed = before_pods | {Gate.QUEUE}
    if blocked is not None:
        passed |= {Gate.ACTIONS}
    if blocked in _LIMITS:
        passed |= {Gate.GANG}
    elif blocked in {Gate.TOPOLOGY, Gate.NODES}:
        passed |= _LIMITS | {Gate.GANG}
        passed |= {Gate.TOPOLOGY} if blocked is Gate.NODES else set()
    return passed


def _is_required(gate: Gate, group: core.PodGroup | None) -> bool:
    if gate is not Gate.TOPOLOGY:
        return True
    return group is not None and (
        group.spec.network_topology is not None
        or any(policy.network_topology is not None for policy in group.spec.sub_group_policy)
    )


def _message(
    gate: Gate, state: GateState, members: Members, queue: core.Queue | None, reason: core.Explanation | None
) -> str:
    if gate is Gate.QUEUE and state is GateState.PASSED:
        if queue is None:
            return f'queue "{members.queue}"'
        phase = (queue.status.state or "Open").lower()
        return f'queue "{members.queue}" is {phase}' + (": admitted jobs continue" if phase != "open" else "")
    if gate is Gate.GANG and state is GateState.PASSED:
        return f"{members.created}/{members.minimum} required pods created"
    numbers = reason.numbers if reason is not None else {}
    if gate is Gate.NODES and state is GateState.UNCHECKED and numbers.get("fit", "0") != "0":
        return f"{numbers['fit']}/{numbers.get('needed', members.minimum)} pods can be placed"
    return ""


def _missing(reason: core.Explanation) -> str:
    """Return the numbers that are missing, else what the nearest nodes reject, else the message."""
    parts = []
    if reason.numbers.get("fit", "0") != "0":
        parts.append(f"{reason.numbers['fit']}/{reason.numbers.get('needed')} pods can be placed")
    of_node = reason.gate == Gate.NODES and bool(reason.nodes)
    if shortages := _shortages(reason.amounts, "allocatable" if of_node else "limit"):
        parts.append(("nearest node: " if of_node else "") + "; ".join(shortages))
    missing = reason.unblocked_by if of_node else ""
    return "; ".join(parts) or missing or reason.message


def _shortages(amounts: Mapping[str, Mapping[str, Any]], limit_word: str) -> Sequence[str]:
    """Return the amounts of each resource of which more is requested than available; the limit with its own word."""
    shortages = []
    available, limit = amounts.get("available", {}), amounts.get("limit", {})
    for name, requested in amounts.get("requested", {}).items():
        if name not in available and name not in limit:
            continue
        if quantity.parse(requested) > quantity.parse(available.get(name, "0")):
            values = [
                f"{limit_word if key == 'limit' else key} {quantity.shown(name, quantity.amount(name, amounts[key][name]))}"
                for key in _QUANTITIES
                if name in amounts.get(key, {}) and not (key in _OPTIONAL and str(amounts[key][name]) == "0")
            ]
            shortages.append(f"{name} {', '.join(values)}")
    return shortages


def waits(group: core.PodGroup | None) -> bool:
    """Return whether remedies are searched for: the pod group exists, and not all of its gang has been placed."""
    return group is not None and group.status.phase in {"", "Pending", "Inqueue", "Unknown"}
