"""Read models of what restricts the nodes of a pod: affinity, tolerations, topology spread."""

from msgspec import field

from volcanopy.api.read_model import LabelSelector, ReadModel, Requirement


class NodeSelectorTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """Requirements on a node's labels and fields, all of which must match. An empty term matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Node selector terms, one of which must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """A node preference with its weight from 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(ReadModel, frozen=True, kw_only=True, gc=False):
    """Node affinity of a pod, required and preferred."""

    required: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredNodeTerm, ...] = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=())


class PodAffinityTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pod (anti-)affinity term."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ReadModel, frozen=True, kw_only=True, gc=False):
    """A pod affinity preference with its weight from 1 to 100."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pod (anti-)affinity, required and preferred."""

    required: tuple[PodAffinityTerm, ...] = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(ReadModel, frozen=True, kw_only=True, gc=False):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ReadModel, frozen=True, kw_only=True, gc=False):
    """Toleration of a taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(ReadModel, frozen=True, kw_only=True, gc=False):
    """Topology spread constraint."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
