"""What is known of the cluster when an object is judged."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from volcanopy.admission.plugins import PluginCheck, no_plugins
from volcanopy.admission.policy import AdmissionPolicy
from volcanopy.admission.request import User
from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.core import Namespace, PodGroup
from volcanopy.api.model import Json, Problem
from volcanopy.api.scheduling_read import Queue
from volcanopy.api.topology_read import HyperNode

MakePod = Callable[[BatchJob], Callable[[TaskSpec], Json | str]]
"""Gives for a job what makes the first pod of a task as the job controller would, or says why it cannot (empty if that is
told elsewhere)."""


@dataclass(frozen=True)
class Edit:
    """A change of the tree of queues that was allowed and may not be seen yet; ``after`` is None for a deletion."""

    name: str
    after: Queue | None


@dataclass(frozen=True)
class Trial:
    """A pod that the API server is asked about without keeping it; or, in words, why there is none to ask about.

    ``path`` is where its ``template`` stands in the object that is judged. ``soon``: such pods are made at once, not at some
    later time.
    """

    path: str
    template: Json
    pod: Json | str
    soon: bool = True


@dataclass(frozen=True)
class Answer:
    """What the API server said to a trial: the HTTP code and message, the causes by their paths in the pod, the warnings.

    The code is 0 where it said nothing; the message then says why.
    """

    code: int
    message: str = ""
    causes: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What is known of the cluster, and of the job plugins.

    None means not known (no connection, or nothing of the kind): nothing is refused for it then. ``rooms`` are the largest
    nodes, in base units: no node has more of everything than one of them. ``unfinished`` counts PodGroups by queue.
    ``edits`` are changes of queues that were allowed a moment ago, perhaps by another server. ``tried`` are the answers to
    the trials of the object that is judged; without ``make_pod`` nothing is to be tried.
    """

    queues: Mapping[str, Queue] | None = None
    check_plugins: PluginCheck = field(default=no_plugins)
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    namespaces: Mapping[str, Namespace] | None = None
    rooms: tuple[Mapping[str, int], ...] = ()
    priority_classes: Container[str] | None = None
    pod_groups: Mapping[str, PodGroup] | None = None
    unfinished: Mapping[str, int] = field(default_factory=dict)
    hyper_nodes: Mapping[str, HyperNode] | None = None
    edits: tuple[Edit, ...] = ()
    waiting: Mapping[tuple[str, User], int] | None = None
    """How many jobs wait for admission, by their queue and by who asked for them."""
    make_pod: MakePod | None = None
    tried: tuple[tuple[Trial, Answer], ...] = ()
