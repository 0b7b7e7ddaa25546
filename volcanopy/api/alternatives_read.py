"""Read models of the alternatives of PodGroups. The full models are in :mod:`volcanopy.api.alternatives`."""

from msgspec import field

from volcanopy.api.affinity import NodeAffinity, Toleration
from volcanopy.api.read_model import Quantities, ReadModel


class AlternativeTask(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods of a task in an alternative, as far as they select nodes."""

    name: str = ""
    pods: int = 1
    requests: Quantities = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()


class Alternative(ReadModel, frozen=True, kw_only=True, gc=False):
    """One of the alternatives of a PodGroup whose pods do not exist yet."""

    name: str = ""
    min_resources: Quantities = field(default_factory=dict)
    running_estimate: str = ""
    tasks: tuple[AlternativeTask, ...] = ()


class SelectedAlternative(ReadModel, frozen=True, kw_only=True, gc=False):
    """Alternative that the scheduler selected."""

    name: str = ""
    message: str = ""
