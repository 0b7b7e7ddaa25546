"""The scheduler as one pure function from a snapshot and a configuration to a plan, and the built-in plugins and actions."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from volcanopy.scheduler.actions import stop_policy
from volcanopy.scheduler.actions.allocate.allocate import allocate
from volcanopy.scheduler.actions.allocate.backfill import backfill
from volcanopy.scheduler.actions.consolidate import consolidate
from volcanopy.scheduler.actions.enqueue import enqueue
from volcanopy.scheduler.actions.evict.evicting_actions import gangpreempt, gangreclaim, preempt, reclaim
from volcanopy.scheduler.actions.shuffle import shuffle
from volcanopy.scheduler.actions.stale_gangs import evict_stale_gangs
from volcanopy.scheduler.engine.network_topology import NetworkTopologyAware
from volcanopy.scheduler.engine.reservations import Reservation
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.extender_port import Extender as ExtenderPort
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policies.nodes.binpack import Binpack
from volcanopy.scheduler.policies.nodes.extender import Extender
from volcanopy.scheduler.policies.nodes.fragmentation import Fragmentation
from volcanopy.scheduler.policies.nodes.nodegroup import NodeGroup
from volcanopy.scheduler.policies.nodes.nodeorder import NodeOrder
from volcanopy.scheduler.policies.nodes.numaaware import NumaAware
from volcanopy.scheduler.policies.nodes.predicates import Predicates
from volcanopy.scheduler.policies.nodes.resource_strategy_fit import ResourceStrategyFit
from volcanopy.scheduler.policies.nodes.task_topology import TaskTopology
from volcanopy.scheduler.policies.nodes.usage import Usage
from volcanopy.scheduler.policies.order.drf import Drf
from volcanopy.scheduler.policies.order.gang import Gang
from volcanopy.scheduler.policies.order.priority import Priority
from volcanopy.scheduler.policies.order.sla import Sla
from volcanopy.scheduler.policies.order.slowdown import Slowdown
from volcanopy.scheduler.policies.quota.capacity import Capacity
from volcanopy.scheduler.policies.quota.overcommit import Overcommit
from volcanopy.scheduler.policies.quota.proportion import Proportion
from volcanopy.scheduler.policies.quota.resourcequota import ResourceQuota
from volcanopy.scheduler.policies.victims.cdp import Cdp
from volcanopy.scheduler.policies.victims.conformance import Conformance
from volcanopy.scheduler.policies.victims.pdb import Pdb
from volcanopy.scheduler.policies.victims.rescheduling import Rescheduling
from volcanopy.scheduler.policies.victims.tdm import Tdm
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.observer import NO_OBSERVER, Observer
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.registry import Action, Registry
from volcanopy.scheduler.report.close import close

_JOBS = (Cdp, Conformance, Drf, Extender, Gang, Overcommit, Pdb, Priority, Rescheduling, Reservation, Sla, Slowdown)
_NODES = (Binpack, Fragmentation, NodeGroup, NodeOrder, NumaAware, Predicates, ResourceStrategyFit, Tdm, Usage)
_QUEUES_AND_TOPOLOGY = (Capacity, Proportion, ResourceQuota, NetworkTopologyAware, TaskTopology)
PLUGINS: tuple[type[Plugin[Any]], ...] = (*_JOBS, *_NODES, *_QUEUES_AND_TOPOLOGY)
_PLACING = (allocate, backfill, enqueue)
_EVICTING = (consolidate, gangpreempt, gangreclaim, preempt, reclaim, shuffle, evict_stale_gangs)
ACTIONS: tuple[Action[Any], ...] = (*_PLACING, *_EVICTING)
_BY_NAME = {action.name: action for action in ACTIONS}
_defaults: Callable[[type[Arguments]], Arguments] = cache(lambda arguments: arguments())


def builtin() -> Registry:
    """Return the plugins and actions that come with volcanopy."""
    return Registry({plugin.name: plugin for plugin in sorted(PLUGINS, key=lambda plugin: plugin.name)}, _BY_NAME)


def schedule(
    snapshot: Snapshot,
    config: SchedulerConfig,
    registry: Registry | None = None,
    observer: Observer = NO_OBSERVER,
    extender: ExtenderPort | None = None,
) -> Plan:
    """Decide one cycle: which pods run on which nodes, which jobs are admitted, and why the others wait.

    1. Open a session: copy the mutable columns of the snapshot into the ledger, and create the configured plugins and
       the mandatory ones (:mod:`volcanopy.scheduler.engine.session_policies`).
    2. Enforce the stop policies: reject the jobs of held queues, evict from drained queues.
    3. Run the configured actions in order, usually enqueue (admit jobs), allocate (place tasks on free resources),
       preempt and reclaim (evict for jobs that lack tasks) and backfill (place tasks without requests). Each adds binds
       and evictions to the session, and the reasons of the jobs that it cannot help.
    4. Close the session: compute the nominations, the statuses of pod groups and queues, and the explanations.

    ``observer`` is informed of each part; the plan does not depend on it. ``extender`` asks a program outside for the plugin of
    that name, which has no opinion without it.
    """
    with observer.during("open"):
        session = open_session(snapshot, config, observer, extender)
    return run(session, _BY_NAME if registry is None else registry.actions)


def open_session(
    snapshot: Snapshot, config: SchedulerConfig, observer: Observer = NO_OBSERVER, extender: ExtenderPort | None = None
) -> Session:
    """Return a session in which the stop policies are enforced: the first two steps of :func:`schedule`."""
    session = Session(snapshot, config, observer, extender)
    stop_policy.enforce(session)
    return session


def run(session: Session, actions: Mapping[str, Action[Any]]) -> Plan:
    """Run the configured actions of a session, close it and return the plan."""
    observer, config, snapshot = session.observer, session.config, session.snapshot
    for name in config.actions:
        with observer.during("action", name):
            actions[name](session, config.action_arguments.get(name) or _defaults(actions[name].arguments))
    for plugin in session.plugins:
        plugin.close()
    with observer.during("close"):
        effects = close(session)
    observer.tried(session.attempts)
    session.end()
    return Plan(tuple(effects), snapshot.version, snapshot.session)
