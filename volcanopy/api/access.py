"""The slices that admission reads of Queues (what the scheduler reads of them, and who may use and change them) and of jobs."""

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


class JobSpec(Slice, frozen=True, kw_only=True, gc=False):
    """Where a job waits."""

    queue: str = ""


class JobState(Slice, frozen=True, kw_only=True, gc=False):
    """Where a job stands."""

    phase: str = ""


class JobStatus(Slice, frozen=True, kw_only=True, gc=False):
    """What has become of a job."""

    state: JobState = JobState()


class Job(Slice, frozen=True, kw_only=True, gc=False):
    """A BatchJob, as far as it has to be counted."""

    metadata: core.Meta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
