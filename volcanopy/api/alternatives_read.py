"""Read models of :mod:`volcanopy.api.alternatives`, written by ``make golden`` from the full models."""

from typing import Any

from volcanopy.api.affinity import NodeAffinity, Toleration
from volcanopy.api.read_model import Quantities, ReadModel


class AlternativeTask(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    template: dict[str, Any] = {}


class Alternative(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    running_estimate: str = ""
    tasks: tuple[AlternativeTask, ...] = ()


class PodGroupAlternativeTask(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    pods: int = 1
    requests: Quantities = {}
    node_selector: dict[str, str] = {}
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()


class PodGroupAlternative(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    min_resources: Quantities = {}
    running_estimate: str = ""
    tasks: tuple[PodGroupAlternativeTask, ...] = ()


class SelectedAlternative(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    message: str = ""
