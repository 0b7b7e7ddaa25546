"""Hooks that the contract of policies no longer has: a policy that defines one is an error that states what to write now."""

from typing import Any

from volcanopy.scheduler.policy.plugin import Plugin

REMOVED: dict[str, str] = {
    "job_condition": "nothing (the plugin gang answers it)",
    "job_enqueueable": "Gate.verdict for Moment.ENQUEUE",
    "job_enqueued": "Gate.verdict for Moment.ENQUEUED",
    "job_order": "Order.jobs",
    "job_pipelined": "Gate.verdict for Moment.PIPELINED",
    "job_ready": "Gate.verdict for Moment.READY",
    "job_starving": "nothing (the plugins gang, priority and tdm answer it)",
    "job_valid": "Gate.verdict for Moment.READY",
    "overdue": "Gate.verdict for Moment.RESERVE",
    "jobs_with_reserved_nodes": "nothing (the plugin reservation answers it)",
    "queue_order": "Order.queue",
    "reservation": "nothing (the plugin reservation answers it)",
    "session_close": "close",
    "shortfall": "nothing (the plugin gang answers it)",
    "subjob_order": "nothing (the plugins gang and priority answer it)",
    "subjob_pipelined": "nothing (the plugin gang answers it)",
    "subjob_ready": "nothing (the plugin gang answers it)",
    "task_order": "Order.tasks",
    "preemptable": "Victims.allows for Purpose.PREEMPT",
    "reclaimable": "Victims.allows for Purpose.RECLAIM",
    "unified_evictable": "Victims.allows for Purpose.GANG_PREEMPT and Purpose.GANG_RECLAIM",
    "preemptable_at_all": "Victims.unprotected for Purpose.PREEMPT",
    "reclaimable_at_all": "Victims.unprotected for Purpose.RECLAIM",
    "unified_evictable_at_all": "Victims.unprotected for Purpose.GANG_PREEMPT and Purpose.GANG_RECLAIM",
    "evictable": "Victims.unprotected for Purpose.SHUFFLE",
    "victim_tasks": "Victims.evicts",
    "hypernode_gradient": "nothing (the plugin network-topology-aware answers it)",
    "hypernode_order": "nothing (the plugin network-topology-aware answers it)",
    "predicate": "Nodes.reject",
    "node_order": "Nodes.score",
    "bind_annotations": "Nodes.annotate",
    "cache_key": "task_value in open",
    "scope": "Nodes.couples_nodes where the answers for nodes depend on each other, and else nothing,",
    "overused": "Gate.queue_verdict",
    "allocatable": "Quota.shares with limit and guarantee",
    "within_share": "Quota.shares with fair",
    "beyond_share": "Quota.shares with fair",
    "reserved_as_first": "Quota.shares with binding=False",
    "preemptive": "Quota.shares with fair",
    "within_fair_share": "Quota.shares with fair",
    "queue_shares": "Quota.shares",
    "victim_queue_order": "Quota.shares with tree",
    "admission_order": "`queue` of the role Order: the engine asks it again with the amounts of admission",
}
"""By removed hook what to write now."""


def problem(plugin: type[Plugin[Any]]) -> str:
    """Return what is wrong with a policy that defines removed hooks, as the end of a sentence; empty if it defines none."""
    names = [name for name in REMOVED if hasattr(plugin, name)]
    if not names:
        return ""
    ported = "; ".join(f"write {REMOVED[name]} instead of {name}" for name in names)
    return f"defines hooks that do not exist any more: {ported}"
