"""What authors of plugins and actions of the scheduler import: the contract, the views that hooks get, and their types.

:mod:`volcanopy_testing.check` tests a plugin over random cluster states. Everything else below ``volcanopy.scheduler`` may
change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from volcanopy.scheduler.ledger.cluster import Cluster, NodesView, TasksView
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.ledger.gpu_cards import Candidates, GpuCards
from volcanopy.scheduler.ledger.task_kinds import TaskValue
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.queue_shares import Shares
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Mask, Resources, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import (
    ABSTAIN,
    PERMIT,
    Arguments,
    Key,
    NoArguments,
    NodeRejection,
    Plugin,
    Rejection,
    Vote,
    reject,
)
from volcanopy.scheduler.policy.registry import Action, Registry
from volcanopy.scheduler.policy.roles import (
    CardRanking,
    CardSharing,
    ClaimAssignment,
    Gate,
    Moment,
    Nodes,
    Order,
    Purpose,
    Quota,
    Victims,
)

if TYPE_CHECKING:
    from volcanopy.scheduler.core import builtin, schedule
    from volcanopy.scheduler.engine.session import Session
    from volcanopy.scheduler.policy.config import parse

_LAZY = {
    "builtin": "volcanopy.scheduler.core",
    "parse": "volcanopy.scheduler.policy.config",
    "schedule": "volcanopy.scheduler.core",
    "Session": "volcanopy.scheduler.engine.session",
}
"""Names that only tests of plugins and actions use, with their modules: they import all plugins."""

__all__ = [
    "ABSTAIN",
    "PERMIT",
    "UNLIMITED",
    "Action",
    "Arguments",
    "Candidates",
    "CardRanking",
    "CardSharing",
    "ClaimAssignment",
    "Claims",
    "Cluster",
    "DomainLimit",
    "Floats",
    "Gate",
    "GpuCards",
    "Ints",
    "JobView",
    "Key",
    "Mask",
    "Moment",
    "NoArguments",
    "NodeRejection",
    "Nodes",
    "NodesView",
    "Order",
    "Plugin",
    "PluginError",
    "Purpose",
    "QueueView",
    "Quota",
    "Registry",
    "Rejection",
    "Resources",
    "Rows",
    "Session",
    "Shares",
    "Status",
    "TaskValue",
    "TaskView",
    "TasksView",
    "Victims",
    "Vote",
    "builtin",
    "parse",
    "reject",
    "schedule",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
