"""The statuses of pod groups, queues and pods after the effects of a plan: pure functions from values to values.

The store uses them to expect a decision before the server confirms it, the writers to write the same."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from volcanopy.api import core, names
from volcanopy.api.messages import shortened
from volcanopy.api.times import format_time
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.scheduler.model.eviction_record import with_eviction
from volcanopy.scheduler.model.plan import Evict, Explain, SetPodGroup, SetQueue, readable

Json = dict[str, Any]
UNSCHEDULABLE = "Unschedulable"
_OURS = frozenset({"Scheduled", UNSCHEDULABLE})
_NODE_REASONS = 16
"""Node reasons in an explanation; the others are added up as one."""
_ENTRIES = 64
_REASON_LENGTH = 253
_OTHER_REASONS = "other reasons"
_REASONS = {
    # Cluster autoscalers add nodes for this reason: it is used where more nodes help.
    "nodes": UNSCHEDULABLE,
    "topology": UNSCHEDULABLE,
    "overcommit": UNSCHEDULABLE,
    "queue": "QueueNotOpen",
    "share": "QueueShare",
    "capability": "QueueCapability",
    "quota": "NamespaceQuota",
}


def group_status(status: core.PodGroupStatus, effect: SetPodGroup, session: str, now: datetime) -> core.PodGroupStatus:
    """Return the status of a pod group after the effect; an equal condition is left unchanged."""
    result = core.PodGroupStatus(
        phase=effect.phase,
        conditions=_conditions(status.conditions, effect, session, now),
        running=effect.running,
        succeeded=effect.succeeded,
        failed=effect.failed,
        estimated_start=status.estimated_start,
        moves=status.moves if effect.moves is None else effect.moves,
        moved_at=now.replace(microsecond=0) if effect.moves and not status.moves else status.moved_at,
        evicted_since=status.evicted_since,
        evicted_seconds=status.evicted_seconds,
        alternative=effect.alternative or status.alternative,
        admitted_at=now.replace(microsecond=0) if _is_admission(status.phase, effect.phase) else status.admitted_at,
        ready_resources=status.ready_resources if effect.ready_resources is None else dict(effect.ready_resources),
    )
    evicted = effect.evicted
    if evicted is None:
        return result
    return with_eviction(result, evicted.reason, shortened(evicted.message), effect.evicted_seconds, now)


def _is_admission(before: str, after: str) -> bool:
    """Whether a change of phase admits a PodGroup. One that is admitted and placed in the same cycle runs at once."""
    return before != after and (after == "Inqueue" or (before in {"", "Pending"} and after == "Running"))


def _conditions(
    known: tuple[core.Condition, ...], effect: SetPodGroup, session: str, now: datetime
) -> tuple[core.Condition, ...]:
    """``Scheduled`` and ``Unschedulable`` exclude each other; conditions of other writers are kept."""
    others = tuple(condition for condition in known if condition.type not in _OURS)
    target = effect.condition
    if target is None:
        return others
    old = next((condition for condition in known if condition.type == target.type), None)
    message = shortened(readable(effect.pod_group, target.message))
    if old is not None and (old.status, old.reason, old.message) == ("True", target.reason, message):
        return (*others, old)
    since = old.last_transition_time if old is not None and old.status == "True" else now.replace(microsecond=0)
    fresh = core.Condition(
        type=target.type,
        status="True",
        reason=target.reason,
        message=message,
        last_transition_time=since,
        transition_id=session,
    )
    return (*others, fresh)


def unschedulable(status: core.PodGroupStatus) -> core.Condition | None:
    """Return the true condition ``Unschedulable`` of a group, if it has one."""
    conditions = status.conditions
    return next((known for known in conditions if known.type == UNSCHEDULABLE and known.status == "True"), None)


def explanation(explain: Explain) -> core.Explanation:
    """Return the explanation in a pod group's status, cut to sizes that the API accepts."""
    most = sorted(explain.nodes.items(), key=lambda item: (-item[1], item[0]))
    nodes = {_cut(reason): count for reason, count in most[:_NODE_REASONS]}
    if len(most) > _NODE_REASONS:
        nodes[_OTHER_REASONS] = sum(count for _, count in most[_NODE_REASONS:])
    amounts: dict[str, core.Quantities] = {
        kind: dict(list(quantities.items())[:_ENTRIES]) for kind, quantities in explain.amounts.items()
    }
    return core.Explanation(
        gate=explain.gate,
        message=shortened(explain.message),
        unblocked_by=shortened(explain.unblocked_by),
        numbers={name: _cut(text) for name, text in list(explain.numbers.items())[:_ENTRIES]},
        nodes=nodes,
        amounts=amounts,
        blocked_by=explain.blocked_by[:_ENTRIES],
    )


def same_text(first: core.Explanation | None, other: core.Explanation | None) -> bool:
    """Whether two explanations have the same texts, whatever their numbers."""
    if first is None or other is None:
        return first is other
    return (first.gate, first.message, first.unblocked_by, first.blocked_by) == (
        other.gate,
        other.message,
        other.unblocked_by,
        other.blocked_by,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


def queue_status(status: core.QueueStatus, effect: SetQueue) -> core.QueueStatus:
    """Return the status of a queue after the effect; a queue without a state is open."""
    return core.QueueStatus(
        state=status.state or "Open",
        allocated=dict(effect.allocated),
        fair_share=dict(effect.fair_share),
        guaranteed=dict(effect.guaranteed),
        borrowed=dict(effect.borrowed),
        waiting=dict(effect.waiting),
        share=effect.share,
        credit=dict(effect.credit),
        usage=dict(effect.usage),
        credit_time=effect.credit_time,
        users=effect.users,
    )


def with_scheduler_fields(status: core.QueueStatus, expected: core.QueueStatus) -> core.QueueStatus:
    """Return the observed status with the fields that the scheduler writes from the expected one.

    State and counts are written by the queue controller.
    """
    return msgspec.structs.replace(
        status,
        allocated=expected.allocated,
        fair_share=expected.fair_share,
        guaranteed=expected.guaranteed,
        borrowed=expected.borrowed,
        waiting=expected.waiting,
        share=expected.share,
        credit=expected.credit,
        usage=expected.usage,
        credit_time=expected.credit_time,
        users=expected.users,
    )


def status_patch(before: msgspec.Struct, after: msgspec.Struct) -> Json:
    """Return the merge patch from one status to another, empty when they are equal."""
    return merge_patch(msgspec.to_builtins(before), msgspec.to_builtins(after))


def reason_of(explain: Explain) -> str:
    """Return the reason of a pending pod's condition, from the gate that rejects it."""
    return _REASONS.get(explain.gate, explain.gate[:1].upper() + explain.gate[1:])


def pod_condition(pod: core.Pod, kind: str) -> core.Condition | None:
    """Return a pod's condition of this type."""
    return next((condition for condition in pod.status.conditions if condition.type == kind), None)


def unscheduled_patch(pod: core.Pod, reason: str, message: str, now: datetime) -> Json | None:
    """Return the strategic merge patch that sets ``PodScheduled`` to False; None if the pod has that condition."""
    message = shortened(message)
    old = pod_condition(pod, "PodScheduled")
    if old is not None and (old.status, old.reason, old.message) == ("False", reason, message):
        return None
    return _patch(pod, [_condition(old, "PodScheduled", "False", reason, message, now)])


_EVICTED = {"preempt": "preempted", "gangpreempt": "preempted", "reclaim": "reclaimed", "gangreclaim": "reclaimed"}


def job_name(group: core.PodGroup) -> str:
    """Return the name of a pod group's job; that of the group if it has no job."""
    owner = group.metadata.controller
    return owner.name if owner is not None and names.is_job(owner.api_version, owner.kind) else group.metadata.name


def eviction_message(effect: Evict, preemptor: core.PodGroup | None) -> str:
    """Return why a pod is evicted: for which job, or else the effect's own message."""
    if preemptor is None:
        return effect.message or effect.reason
    queue = preemptor.spec.queue or names.DEFAULT_QUEUE
    if effect.moved_to:
        return f'moved to node "{effect.moved_to}" for job "{job_name(preemptor)}" in queue "{queue}"'
    return f'{_EVICTED.get(effect.reason, "evicted")} by job "{job_name(preemptor)}" in queue "{queue}"'


def disruption_patch(
    pod: core.Pod, reason: str, message: str, preemptor: core.PodGroup | None, now: datetime
) -> Json | None:
    """Return the strategic merge patch that sets ``DisruptionTarget`` and names the preemptor's job in an annotation.

    None if the pod has that condition.
    """
    targets = (
        ("DisruptionTarget", "True", "PreemptionByScheduler", f"{reason}: {message.removeprefix(f'{reason}: ')}"),
        ("Ready", "False", "Evicted", message),
    )
    changed = []
    for kind, status, cause, text in targets:
        old = pod_condition(pod, kind)
        if old is None or (old.status, old.reason) != (status, cause):
            changed.append(_condition(old, kind, status, cause, text, now))
    if not changed:
        return None
    patch = _patch(pod, changed)
    if preemptor is not None:
        # An update of a pod's status may change its annotations (podStatusStrategy of kube-apiserver).
        key = f"{preemptor.metadata.namespace}/{job_name(preemptor)}"
        patch["metadata"]["annotations"] = {names.PREEMPTOR: key}
    return patch


def nomination_patch(pod: core.Pod, node: str) -> Json | None:
    """Return the merge patch that sets ``nominatedNodeName``; None if it is set."""
    if pod.status.nominated_node_name == node:
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node}}


def _patch(pod: core.Pod, conditions: Iterable[Json]) -> Json:
    # The uid keeps the patch from being applied to another pod of the same name.
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": list(conditions)}}


def _condition(old: core.Condition | None, kind: str, status: str, reason: str, message: str, now: datetime) -> Json:
    entry = {"type": kind, "status": status, "reason": reason, "message": message}
    if old is None or old.status != status:
        entry["lastTransitionTime"] = format_time(now)
    return entry
