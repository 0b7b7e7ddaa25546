"""The slice that admission reads of Queues: what the scheduler reads of them, and who may use and change them."""

from volcanopy.api import core
from volcanopy.api.core import Slice


class Subjects(Slice, frozen=True, kw_only=True, gc=False):
    """People and programs: everyone whom one of the lists names."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class QueueSpec(core.QueueSpec, frozen=True, kw_only=True, gc=False):
    """A queue's claim on the cluster, and who may use it."""

    submitters: Subjects | None = None
    administrators: Subjects | None = None


class Queue(core.Queue, frozen=True, kw_only=True, gc=False):
    """A queue."""

    spec: QueueSpec = QueueSpec()
