"""What the statuses of pod groups, queues and pods become by the effects of a plan: values in, values out.

The store uses these to expect what was decided before the server confirms it, the applier to write the same.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from volcanopy.api import core
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.scheduler.model.plan import Evict, Explain, GroupCondition, SetPodGroup, SetQueue

Json = dict[str, Any]
MESSAGE_LIMIT = 32768
"""Characters of a condition's message that the API takes."""
UNSCHEDULABLE = "Unschedulable"
_OURS = frozenset({"Scheduled", UNSCHEDULABLE})
_NODE_REASONS = 16
"""So many reasons of nodes stand in an explanation; what the others come to stands beside them."""
_ENTRIES = 64
_WORD = 253
_OTHER_REASONS = "other reasons"
_REASONS = {
    # Cluster autoscalers add nodes for this very word: it is for what more nodes would help.
    "nodes": UNSCHEDULABLE,
    "topology": UNSCHEDULABLE,
    "overcommit": UNSCHEDULABLE,
    "queue": "QueueNotOpen",
    "share": "QueueShare",
    "capability": "QueueCapability",
    "quota": "NamespaceQuota",
    "gang": "GangIncomplete",
}


def group_status(status: core.PodGroupStatus, effect: SetPodGroup, session: str, now: datetime) -> core.PodGroupStatus:
    """The status of a pod group after the effect. A condition that says what it said before stays as it is."""
    return core.PodGroupStatus(
        phase=effect.phase,
        conditions=_conditions(status.conditions, effect.condition, session, now),
        running=effect.running,
        succeeded=effect.succeeded,
        failed=effect.failed,
    )


def _conditions(
    known: tuple[core.Condition, ...], wanted: GroupCondition | None, session: str, now: datetime
) -> tuple[core.Condition, ...]:
    """``Scheduled`` and ``Unschedulable`` exclude each other; conditions of others are kept."""
    others = tuple(one for one in known if one.type not in _OURS)
    if wanted is None:
        return others
    old = next((one for one in known if one.type == wanted.type), None)
    message = wanted.message[:MESSAGE_LIMIT]
    if old is not None and (old.status, old.reason, old.message) == ("True", wanted.reason, message):
        return (*others, old)
    since = old.last_transition_time if old is not None and old.status == "True" else now.replace(microsecond=0)
    fresh = core.Condition(
        type=wanted.type,
        status="True",
        reason=wanted.reason,
        message=message,
        last_transition_time=since,
        transition_id=session,
    )
    return (*others, fresh)


def unschedulable(status: core.PodGroupStatus) -> core.Condition | None:
    """The condition that says the group cannot start, if it has it."""
    return next((one for one in status.conditions if one.type == UNSCHEDULABLE and one.status == "True"), None)


def explanation(explain: Explain) -> core.Explanation:
    """What a pod group says about why it waits, cut to a size that the API takes and people can read."""
    most = sorted(explain.nodes.items(), key=lambda item: (-item[1], item[0]))
    nodes = {_cut(reason): count for reason, count in most[:_NODE_REASONS]}
    if len(most) > _NODE_REASONS:
        nodes[_OTHER_REASONS] = sum(count for _, count in most[_NODE_REASONS:])
    amounts: dict[str, core.Quantities] = {
        kind: dict(list(found.items())[:_ENTRIES]) for kind, found in explain.amounts.items()
    }
    return core.Explanation(
        gate=explain.gate,
        message=explain.message[:MESSAGE_LIMIT],
        unblock=explain.unblock[:MESSAGE_LIMIT],
        numbers={name: _cut(text) for name, text in list(explain.numbers.items())[:_ENTRIES]},
        nodes=nodes,
        amounts=amounts,
        ahead=explain.ahead[:_ENTRIES],
    )


def same_text(one: core.Explanation | None, other: core.Explanation | None) -> bool:
    """Whether two explanations tell people the same, whatever their numbers."""
    if one is None or other is None:
        return one is other
    return (one.gate, one.message, one.unblock, one.ahead) == (other.gate, other.message, other.unblock, other.ahead)


def _cut(text: str) -> str:
    return text if len(text) <= _WORD else text[: _WORD - 1] + "…"


def queue_status(status: core.QueueStatus, effect: SetQueue) -> core.QueueStatus:
    """The status of a queue after the effect; a queue whose state nobody has set is open."""
    return core.QueueStatus(
        state=status.state or "Open",
        allocated=dict(effect.allocated),
        deserved=dict(effect.deserved),
        guaranteed=dict(effect.guaranteed),
        borrowed=dict(effect.borrowed),
        waiting=dict(effect.waiting),
        share=effect.share,
    )


def difference(before: msgspec.Struct, after: msgspec.Struct) -> Json:
    """The merge patch from one status to another, empty when they are equal."""
    return merge_patch(msgspec.to_builtins(before), msgspec.to_builtins(after))


def reason_of(explain: Explain) -> str:
    """The word for why pods wait, from the gate that holds them back."""
    return _REASONS.get(explain.gate, explain.gate[:1].upper() + explain.gate[1:])


def pod_condition(pod: core.Pod, kind: str) -> core.Condition | None:
    """A condition of a pod."""
    return next((one for one in pod.status.conditions if one.type == kind), None)


def unscheduled_patch(pod: core.Pod, reason: str, message: str, now: datetime) -> Json | None:
    """The strategic merge patch that says why a pod has no node; None where it says so already."""
    message = message[:MESSAGE_LIMIT]
    old = pod_condition(pod, "PodScheduled")
    if old is not None and (old.status, old.reason, old.message) == ("False", reason, message):
        return None
    return _patch(pod, [_condition(old, "PodScheduled", "False", reason, message, now)])


def disrupted(pod: core.Pod, effect: Evict, now: datetime) -> Json | None:
    """The strategic merge patch that announces a pod's eviction; None where it is announced already."""
    wanted = (
        ("DisruptionTarget", "True", "PreemptionByScheduler", f"{effect.reason}: {effect.message}".removesuffix(": ")),
        ("Ready", "False", "Evict", effect.message or effect.reason),
    )
    news = []
    for kind, status, reason, message in wanted:
        old = pod_condition(pod, kind)
        if old is None or (old.status, old.reason) != (status, reason):
            news.append(_condition(old, kind, status, reason, message, now))
    return _patch(pod, news) if news else None


def nominated(pod: core.Pod, node: str) -> Json | None:
    """The merge patch that keeps a node's room for a pod; None where it says so already."""
    if pod.status.nominated_node_name == node:
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node}}


def _patch(pod: core.Pod, conditions: Iterable[Json]) -> Json:
    # With the uid the patch is for this pod or for none.
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": list(conditions)}}


def _condition(old: core.Condition | None, kind: str, status: str, reason: str, message: str, now: datetime) -> Json:
    entry = {"type": kind, "status": status, "reason": reason, "message": message}
    if old is None or old.status != status:
        entry["lastTransitionTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return entry
