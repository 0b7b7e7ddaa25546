"""The whole scheduler as one function: a snapshot and a configuration in, a plan out."""

from volcanopy.scheduler.actions.allocate import Allocate
from volcanopy.scheduler.actions.backfill import Backfill
from volcanopy.scheduler.actions.enqueue import Enqueue
from volcanopy.scheduler.closing import close
from volcanopy.scheduler.config import SchedulerConfig
from volcanopy.scheduler.plan import Plan
from volcanopy.scheduler.plugins.binpack import Binpack
from volcanopy.scheduler.plugins.conformance import Conformance
from volcanopy.scheduler.plugins.drf import Drf
from volcanopy.scheduler.plugins.gang import Gang
from volcanopy.scheduler.plugins.nodeorder import NodeOrder
from volcanopy.scheduler.plugins.overcommit import Overcommit
from volcanopy.scheduler.plugins.predicates import Predicates
from volcanopy.scheduler.plugins.priority import Priority
from volcanopy.scheduler.plugins.proportion import Proportion
from volcanopy.scheduler.registry import Registry
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.snapshot import Snapshot


def builtin() -> Registry:
    """The plugins and actions that come with volcanopy."""
    plugins = (Binpack, Conformance, Drf, Gang, NodeOrder, Overcommit, Predicates, Priority, Proportion)
    actions = (Allocate(), Backfill(), Enqueue())
    return Registry({plugin.name: plugin for plugin in plugins}, {action.name: action for action in actions})


def schedule(snapshot: Snapshot, config: SchedulerConfig, registry: Registry | None = None) -> Plan:
    """Decide one cycle: which pods run where, which groups are admitted, and why the others wait."""
    actions = (registry or builtin()).actions
    session = Session(snapshot, config)
    for name in config.actions:
        actions[name](session, config.action_arguments.get(name, {}))
    return Plan(tuple(close(session)), snapshot.version, snapshot.session)
