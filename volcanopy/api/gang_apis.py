"""PodGroups of other gang APIs: those of Kubernetes, of the coscheduling plugin of scheduler-plugins, and of KAI.

This module alone decides what differs between them: group and versions, how a pod names its PodGroup, and the form of the
status. The fields of their specs do not contradict each other, so one read model has them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import field as read_field

from volcanopy.api.core import Meta, Quantities, ReadModel


class StatusForm(Enum):
    """What is written into the status of a PodGroup of another API."""

    CONDITION = "condition"
    """One condition, as kube-scheduler does."""
    PHASE = "phase"
    """Phase and numbers of pods, as the controller of scheduler-plugins does."""
    NONE = "none"


@dataclass(frozen=True)
class GangApi:
    """The names of one gang API."""

    name: str
    """Its name, as in ``--gang-api``."""
    group: str
    versions: tuple[str, ...]
    """The versions that are understood, newest first."""
    in_spec: bool = False
    """Whether pods name their PodGroup in ``spec.schedulingGroup.podGroupName``."""
    label: str = ""
    """Label of pods that names their PodGroup."""
    annotation: str = ""
    """Annotation of pods that names their PodGroup."""
    queue_labels: tuple[str, ...] = ()
    """Labels of its PodGroups that name the queue, besides those of the settings."""
    status: StatusForm = StatusForm.NONE
    condition_types: Mapping[str, str] = field(default_factory=dict)
    """The type of the condition, by version."""

    def __hash__(self) -> int:
        return hash(self.name)


KUBERNETES = GangApi(
    "kubernetes",
    "scheduling.k8s.io",
    ("v1beta1", "v1alpha3", "v1alpha2"),
    in_spec=True,
    status=StatusForm.CONDITION,
    condition_types={"v1alpha2": "PodGroupScheduled"}
    | dict.fromkeys(("v1alpha3", "v1beta1"), "PodGroupInitiallyScheduled"),
)
COSCHEDULING = GangApi(
    "coscheduling", "scheduling.x-k8s.io", ("v1alpha1",), label="scheduling.x-k8s.io/pod-group", status=StatusForm.PHASE
)
KAI = GangApi(
    "kai",
    "scheduling.run.ai",
    ("v2alpha2",),
    annotation="pod-group-name",
    queue_labels=("kai.scheduler/queue", "runai/queue"),
)
GANG_APIS: Mapping[str, GangApi] = {api.name: api for api in (KUBERNETES, COSCHEDULING, KAI)}
"""By the values of ``--gang-api``. Where a pod names several PodGroups, the first counts."""


class Gang(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods that start together."""

    min_count: int = 1


class SchedulingPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """How the pods of a PodGroup of Kubernetes start: one by one without a gang."""

    gang: Gang | None = None


class TopologyConstraint(ReadModel, frozen=True, kw_only=True, gc=False):
    """Label of nodes that has one value for all pods."""

    key: str = ""


class SchedulingConstraints(ReadModel, frozen=True, kw_only=True, gc=False):
    """Constraints of a PodGroup of Kubernetes."""

    topology: tuple[TopologyConstraint, ...] = ()


class GangGroupSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a PodGroup of any gang API."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    min_member: int = 1
    min_resources: Quantities | None = None
    priority_class_name: str = ""
    queue: str = ""

    @property
    def pods_at_once(self) -> int:
        """The number of pods that start together."""
        if self.scheduling_policy is None:
            return max(self.min_member, 1)
        return 1 if self.scheduling_policy.gang is None else self.scheduling_policy.gang.min_count


class GangGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    """A PodGroup of any gang API."""

    metadata: Meta
    spec: GangGroupSpec = GangGroupSpec()
    status: dict[str, Any] = read_field(default_factory=dict)
