"""Context of a review: the configuration of admission, the state of the cluster and the check of job plugins."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from volcanopy.admission.request import User
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.config_file import read_config
from volcanopy.api.core import Namespace, PodGroup, Queue
from volcanopy.api.flow import JobTemplate
from volcanopy.api.model import Bool, Json, Model, Problem, Subdomain, forbidden
from volcanopy.api.scheduling import Subjects
from volcanopy.api.topology_read import HyperNode

Severity = Literal["reject", "warn", "allow"]


class Placement(Subjects):
    """Queue of jobs of these subjects that name no queue."""

    queue: Subdomain
    """Name of the queue."""


class AdmissionPolicy(Model):
    """Configuration of admission for the whole cluster. Permissions of a queue are part of the queue."""

    max_queue_depth: int = Field(default=5, ge=1, le=64)
    """Maximum depth of the queue tree, without the root queue."""
    protect_root: Bool = True
    """Whether capability, deserved and guarantee of the root queue are immutable."""
    gang_above_capability: Severity = "reject"
    """Severity if the smallest gang of a job exceeds the capability of its queue or an ancestor, or its submitter's limits."""
    pod_above_nodes: Severity = "warn"
    """Severity if a pod is larger than every node."""
    pod_rejected: Severity = "reject"
    """Severity if the API server rejects a pod of a job in a dry run. With ``allow`` there are no dry runs."""
    pod_unchecked: Severity = "warn"
    """Severity if the dry run of a pod fails for another reason."""
    placement: list[Placement] = Field(default_factory=list, max_length=1024)
    """Queues of jobs that name none, in a namespace that names none. The first matching entry applies."""
    default_queue: Subdomain = names.DEFAULT_QUEUE
    """Queue of all other jobs that name none."""
    queue_labels: list[str] = Field(default_factory=list, max_length=16)
    """Labels that name the queue of a job, PodGroup or pod that names none itself, or of all in a namespace, such as
    kueue.x-k8s.io/queue-name or kai.scheduler/queue."""
    queue_gates: Bool = False
    """Whether pods with the annotation ``scheduling.volcanopy.io/queue-allocation-gate: "true"`` get the scheduling gate of that
    name. The scheduler removes it, for which it needs the permission to patch pods."""
    scheduler_names: list[str] = Field(default_factory=lambda: [names.SCHEDULER], min_length=1, max_length=16)
    """Scheduler names of pods that volcanopy schedules."""
    scheduler_plugins: list[str] | None = Field(default=None, max_length=64)
    """Plugins of the scheduler's configuration. A field of a queue that none of them reads gets a warning."""
    controllers: list[str] = Field(default_factory=list, max_length=64)
    """User names of volcanopy's controllers, which create objects on behalf of other users."""
    unpreemptable: Subjects | None = None
    """Subjects that may protect pods from eviction, besides the administrators of the queue.
    Without it every user may in queues that have no administrators."""
    superusers: Subjects = Field(default_factory=lambda: Subjects(groups=["system:masters"]))
    """Subjects that may use and change every queue."""


def parse(text: str) -> AdmissionPolicy:
    """Parse a configuration file. Raises ConfigError."""
    return read_config(AdmissionPolicy, text, "maxQueueDepth: 5")


MakePod = Callable[[BatchJob], Callable[[TaskSpec], Json | str]]
"""Returns for a job a function that makes the first pod of a task as the job controller would, or the reason why it cannot
(empty if the reason is reported elsewhere)."""
PluginCheck = Callable[[BatchJob], Iterable[Problem]]
"""Returns the problems of a job's ``spec.plugins``, each with its path: unknown plugins, wrong arguments."""


def no_plugins(job: BatchJob) -> Iterable[Problem]:
    """Return a problem for each plugin: a check for callers without job plugins."""
    return [forbidden(f"spec.plugins.{name}", "job plugins are not available") for name in sorted(job.spec.plugins)]


@dataclass(frozen=True)
class DryRun:
    """A pod to create in dry-run mode, or the reason why there is none.

    ``path`` is the path of its ``template`` in the reviewed object. ``immediate``: the pods are created at once and not at
    some later time.
    """

    path: str
    template: Json
    pod: Json | str
    immediate: bool = True


@dataclass(frozen=True)
class DryRunResult:
    """Response of the API server to a dry run: HTTP code, message, causes with their paths in the pod, and warnings.

    The code is 0 if there was no response; the message then contains the reason.
    """

    code: int
    message: str = ""
    causes: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """State of the cluster, and the check of job plugins.

    None means unknown (no connection, or no such kind): nothing is rejected because of it. ``largest_nodes`` are allocatable
    amounts in base units: no node has more of every resource than one of them; ``cluster`` is the sum of all nodes, empty if
    unknown. ``unfinished`` counts PodGroups by queue, ``queued_jobs`` jobs that wait for admission by queue and submitter.
    ``dry_runs`` are the results for the reviewed object; without ``make_pod`` there are no dry runs.
    """

    queues: Mapping[str, Queue] | None = None
    check_plugins: PluginCheck = field(default=no_plugins)
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    namespaces: Mapping[str, Namespace] | None = None
    largest_nodes: tuple[Mapping[str, int], ...] = ()
    cluster: Mapping[str, int] = field(default_factory=dict)
    priority_classes: Container[str] | None = None
    pod_groups: Mapping[str, PodGroup] | None = None
    unfinished: Mapping[str, int] = field(default_factory=dict)
    hyper_nodes: Mapping[str, HyperNode] | None = None
    job_templates: Mapping[str, JobTemplate] | None = None
    """The JobTemplates that a reviewed flow names, by name."""
    moved_pods: tuple[Json, ...] = ()
    """The pods of a PodGroup that moves to another queue, with volcanopy's names."""
    queued_jobs: Mapping[tuple[str, User], int] | None = None
    make_pod: MakePod | None = None
    dry_runs: tuple[tuple[DryRun, DryRunResult], ...] = ()
    may_change_target: bool | None = None
    """Whether the API server lets the user of a Command update its target; None if it was not asked."""
