"""Pods that terminate on nodes that are not ready: nothing confirms their end until the node returns or an administrator acts.

The condition ``NodeNotReady`` of a job and the end of its message name the pods, the nodes and the remedy.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from volcanopy.api.batch import BatchJobStatus
from volcanopy.api.core import Node
from volcanopy.api.model import Condition, quoted
from volcanopy.api.quantity import counted
from volcanopy.api.times import format_time
from volcanopy.jobcontroller.observed import JobPod
from volcanopy.jobcontroller.phases import STOPPED
from volcanopy.jobcontroller.status import CANNOT_TERMINATE, phase_message

NOT_READY = "NodeNotReady"
"""The type of the condition, and the reason of the event."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MOST_NODES = 3
"""The nodes that a message names."""


def not_ready_reason(node: Node) -> str:
    """Return since when and why a node is not ready, as a clause; empty for a node that is ready or has not reported yet."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            time = condition.last_transition_time
            since = f" since {format_time(time)}" if time is not None else ""
            why = " ".join((condition.message or condition.reason).split()).rstrip(".")
            return f"NotReady{since}" + (f": {why}" if why else "")
    return ""


def stuck_pods(members: Sequence[JobPod], doomed: Collection[str], not_ready: Mapping[str, str]) -> str:
    """Return which pods cannot end because of their nodes, and the remedy, as a clause; empty if there are none.

    ``not_ready`` has the reason of each node that is not ready, ``doomed`` the names of the pods to delete.
    """
    nodes: dict[str, int] = {}
    for member in members:
        node = member.pod.spec.node_name
        terminates = member.pod.metadata.deletion_timestamp is not None or member.name in doomed
        if node in not_ready and terminates and not member.removed and not member.ended:
            nodes[node] = nodes.get(node, 0) + 1
    if not nodes:
        return ""
    first = sorted(nodes)[:_MOST_NODES]
    more = f" and {len(nodes) - len(first)} more" if len(nodes) > len(first) else ""
    where = f'node "{first[0]}"' if len(nodes) == 1 else f"nodes {quoted(first)}{more}"
    return (
        f"{counted(sum(nodes.values()), 'pod')} {CANNOT_TERMINATE}{where} {not_ready[first[0]]}; when it is shut down, "
        f"taint it with {OUT_OF_SERVICE}=nodeshutdown:NoExecute, or delete the pods with --force"
    )


def with_stuck_pods(status: BatchJobStatus, stuck: str, now: datetime) -> BatchJobStatus:
    """Return the status with this clause as its condition and at the end of its message; without it if the clause is empty."""
    before = next((condition for condition in status.conditions if condition.type == NOT_READY), None)
    stuck = "" if status.state.phase in STOPPED else stuck
    if before is None and not stuck:
        return status
    message = "; ".join(filter(None, (phase_message(status), stuck)))
    state = status.state.model_copy(update={"message": message})
    conditions = [condition for condition in status.conditions if condition.type != NOT_READY]
    if stuck:
        time = before.last_transition_time if before is not None else now.replace(microsecond=0)
        conditions.append(
            Condition(type=NOT_READY, status="True", reason=NOT_READY, message=stuck, last_transition_time=time)
        )
    return status.model_copy(update={"state": state, "conditions": conditions})


def stuck_announcements(before: BatchJobStatus, after: BatchJobStatus) -> Iterator[str]:
    """Yield the clause about stuck pods once."""
    if not any(condition.type == NOT_READY for condition in before.conditions):
        yield from (condition.message for condition in after.conditions if condition.type == NOT_READY)
