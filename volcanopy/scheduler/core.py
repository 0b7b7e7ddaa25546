"""The whole scheduler as one function: a snapshot and a configuration in, a plan out."""

from typing import Any

from volcanopy.scheduler.actions.allocate.allocate import Allocate
from volcanopy.scheduler.actions.allocate.backfill import Backfill
from volcanopy.scheduler.actions.drain import drain
from volcanopy.scheduler.actions.enqueue import Enqueue
from volcanopy.scheduler.actions.evict.gangpreempt import GangPreempt
from volcanopy.scheduler.actions.evict.gangreclaim import GangReclaim
from volcanopy.scheduler.actions.evict.preempt import Preempt
from volcanopy.scheduler.actions.evict.reclaim import Reclaim
from volcanopy.scheduler.actions.shuffle import Shuffle
from volcanopy.scheduler.framework.config import SchedulerConfig
from volcanopy.scheduler.framework.observer import NO_OBSERVER, Observer
from volcanopy.scheduler.framework.plugin import Plugin
from volcanopy.scheduler.framework.registry import Registry
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.plugins.binpack import Binpack
from volcanopy.scheduler.plugins.capacity import Capacity
from volcanopy.scheduler.plugins.cdp import Cdp
from volcanopy.scheduler.plugins.conformance import Conformance
from volcanopy.scheduler.plugins.deviceshare import DeviceShare
from volcanopy.scheduler.plugins.drf import Drf
from volcanopy.scheduler.plugins.gang import Gang
from volcanopy.scheduler.plugins.network_topology_aware import NetworkTopologyAware
from volcanopy.scheduler.plugins.nodegroup import NodeGroup
from volcanopy.scheduler.plugins.nodeorder import NodeOrder
from volcanopy.scheduler.plugins.numaaware import NumaAware
from volcanopy.scheduler.plugins.overcommit import Overcommit
from volcanopy.scheduler.plugins.pdb import Pdb
from volcanopy.scheduler.plugins.predicates import Predicates
from volcanopy.scheduler.plugins.priority import Priority
from volcanopy.scheduler.plugins.proportion import Proportion
from volcanopy.scheduler.plugins.rescheduling import Rescheduling
from volcanopy.scheduler.plugins.reservation import Reservation
from volcanopy.scheduler.plugins.resource_strategy_fit import ResourceStrategyFit
from volcanopy.scheduler.plugins.resourcequota import ResourceQuota
from volcanopy.scheduler.plugins.sla import Sla
from volcanopy.scheduler.plugins.task_topology import TaskTopology
from volcanopy.scheduler.plugins.tdm import Tdm
from volcanopy.scheduler.plugins.usage import Usage
from volcanopy.scheduler.report.close import close
from volcanopy.scheduler.session.session import Session


def builtin() -> Registry:
    """The plugins and actions that come with volcanopy."""
    plugins: tuple[type[Plugin[Any]], ...] = (
        Binpack,
        Capacity,
        Cdp,
        Conformance,
        DeviceShare,
        Drf,
        Gang,
        NetworkTopologyAware,
        NodeGroup,
        NodeOrder,
        NumaAware,
        Overcommit,
        Pdb,
        Predicates,
        Priority,
        Proportion,
        Rescheduling,
        Reservation,
        ResourceStrategyFit,
        ResourceQuota,
        Sla,
        TaskTopology,
        Tdm,
        Usage,
    )
    actions = (Allocate(), Backfill(), Enqueue(), GangPreempt(), GangReclaim(), Preempt(), Reclaim(), Shuffle())
    return Registry({plugin.name: plugin for plugin in plugins}, {action.name: action for action in actions})


def schedule(
    snapshot: Snapshot, config: SchedulerConfig, registry: Registry | None = None, observer: Observer = NO_OBSERVER
) -> Plan:
    """Decide one cycle: which pods run where, which groups are admitted, and why the others wait.

    ``observer`` hears how it goes; what is decided does not depend on it.
    """
    actions = (registry or builtin()).actions
    with observer.during("open"):
        session = Session(snapshot, config, observer)
        drain(session)
    for name in config.actions:
        session.cluster.precedence.begin()
        with observer.during("action", name):
            actions[name](session, config.action_arguments.get(name, {}))
    with observer.during("close"):
        effects = close(session)
    observer.tried(session.attempts)
    return Plan(tuple(effects), snapshot.version, snapshot.session)
