"""CustomResourceDefinitions under Volcano's groups, from the same models, with Volcano's names and columns."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from volcanopy.api.bindings import APIS, VOLCANO, VOLCANOPY, Binding
from volcanopy.api.crd import RESOURCES, PrinterColumn, Resource, crd, crds
from volcanopy.api.model import Json

_AGE = PrinterColumn("AGE", ".metadata.creationTimestamp", "Time since creation", type="date")
_RUNNING = PrinterColumn("RUNNINGS", ".status.running", "Number of running pods", "integer")
_QUEUE = PrinterColumn("QUEUE", ".spec.queue", "Queue", wide=True)

_NAMES: dict[str, tuple[str, ...]] = {
    "Job": ("vcjob", "vj"),
    "CronJob": ("cronvcjob", "cronvj"),
    "PodGroup": ("pg", "podgroup-v1beta1"),
    "Queue": ("q", "queue-v1beta1"),
}
"""Short names, where they are not those of volcanopy."""
_COLUMNS: dict[str, tuple[PrinterColumn, ...]] = {
    "Job": (
        PrinterColumn("STATUS", ".status.state.phase", "Phase of the job"),
        PrinterColumn(
            "minAvailable", ".status.minAvailable", "Minimum number of pods that are placed together", "integer"
        ),
        _RUNNING,
        _AGE,
        _QUEUE,
    ),
    "JobFlow": (PrinterColumn("Status", ".status.state.phase", "Phase of the flow"), replace(_AGE, name="Age")),
    "PodGroup": (
        PrinterColumn("STATUS", ".status.phase", "Phase of the PodGroup"),
        PrinterColumn("minMember", ".spec.minMember", "Minimum number of pods that are placed together", "integer"),
        _RUNNING,
        _AGE,
        _QUEUE,
    ),
    "Queue": (PrinterColumn("PARENT", ".spec.parent", "Parent queue"),),
    "HyperNode": (
        PrinterColumn("Tier", ".spec.tier", "Tier in the network topology", "string"),
        PrinterColumn("TierName", ".spec.tierName", "Name of the tier"),
        PrinterColumn("NodeCount", ".status.nodeCount", "Number of nodes", "integer"),
        replace(_AGE, name="Age"),
    ),
}
"""Columns, as those of Volcano; kinds without an entry have none."""


def _resource(resource: Resource) -> Resource:
    """Return a resource of volcanopy under Volcano's names."""
    bound = replace(resource, model=resource.model.bound(VOLCANO), plural=VOLCANO.plural(resource.plural))
    return replace(
        bound,
        short_names=_NAMES.get(bound.kind, resource.short_names),
        columns=_COLUMNS.get(bound.kind, ()),
        # Volcano's clients write the status of a PodGroup with the object, which has no status subresource there.
        status=resource.status and bound.kind != "PodGroup",
        in_all=False,
        selectable=(),
    )


VOLCANO_RESOURCES = tuple(_resource(resource) for resource in RESOURCES if VOLCANO.serves(resource.kind))


def crds_of_api(api: str) -> tuple[Json, ...]:
    """Return the definitions of all kinds that are served with a value of ``--api``."""
    return crds_of(APIS[api])


def crds_of(bindings: Iterable[Binding]) -> tuple[Json, ...]:
    """Return the definitions of all kinds of these APIs."""
    served = {VOLCANOPY: crds, VOLCANO: _volcano_crds}
    return tuple(definition for binding in bindings for definition in served[binding]())


@cache
def _encoded() -> str:
    return json.dumps([crd(resource) for resource in VOLCANO_RESOURCES])


def _volcano_crds() -> tuple[Json, ...]:
    return tuple(json.loads(_encoded()))
