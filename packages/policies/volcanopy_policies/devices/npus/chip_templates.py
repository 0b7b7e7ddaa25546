"""NPUs that MindCluster divides: the chips of nodes, the templates by which pods get parts of a chip, and the pods' annotations.

A chip has AI cores and AI cpus. A pod requests AI cores; a template adds the AI cpus, by labels of the pod.
"""

from collections.abc import Mapping
from typing import NamedTuple

from volcanopy.api import core, names
from volcanopy.api.builtin.gpu_annotations import Card, CardShare, limit

ON, OFF, ANY = "yes", "no", "null"
"""Whether a pod uses the chip's unit for images (DVPP): it does, it does not, or this does not matter."""


class ChipPart(NamedTuple):
    """What a template contains."""

    cores: int
    cpus: int
    dvpp: str = ANY


TEMPLATES: Mapping[str, ChipPart] = {
    "vir01": ChipPart(1, 1),
    "vir02": ChipPart(2, 2),
    "vir02_1c": ChipPart(2, 1),
    "vir04": ChipPart(4, 4),
    "vir04_3c": ChipPart(4, 3),
    "vir04_3c_ndvpp": ChipPart(4, 3, OFF),
    "vir04_4c_dvpp": ChipPart(4, 4, ON),
}
WITH_LESS_CPU: Mapping[str, str] = {"vir02": "vir02_1c", "vir04": "vir04_3c"}
"""The template that a pod gets where the AI cpus of its own are not free."""

KIND = "Ascend310P"
CPUS = 7
"""The AI cpus of a chip of this kind, whether it has 8 or 10 AI cores."""
_CORES = (8, 10)

SELECTS = ("ring-controller.atlas", "ascend-310P")
LEVEL = "vnpu-level"
DVPP = "vnpu-dvpp"
REAL = "huawei.com/AscendReal"
"""On running pods: annotation of the device plugin with the part that it made: ``Ascend310P-2c.1cpu-105-0_3``."""


def requested_cores(pod: core.Pod) -> int:
    """Return the AI cores that a pod requests of NPUs that MindCluster divides; 0 without a request."""
    key, value = SELECTS
    if pod.metadata.labels.get(key) != value:
        return 0
    return next((cores for each in pod.spec.containers if (cores := limit(each, names.NPU_CORES))), 0)


def template_of(cores: int, labels: Mapping[str, str]) -> str:
    """Return the template for this number of AI cores by the labels of the pod; empty if there is none."""
    dvpp = labels.get(DVPP, ANY)
    high = labels.get(LEVEL) == "high"
    match cores, dvpp:
        case 1, ("yes" | "no" | "null"):
            return "vir01"
        case 2, ("yes" | "no" | "null"):
            return "vir02" if high else "vir02_1c"
        case 4, "yes":
            return "vir04_4c_dvpp"
        case 4, "no":
            return "vir04_3c_ndvpp"
        case 4, "null":
            return "vir04" if high else "vir04_3c"
    return ""


def cores_per_chip(node: core.Node) -> int:
    """Return the AI cores of each chip of a node, by its labels; 0 if the node has no such chips."""
    labels = node.metadata.labels
    kind, _, rest = labels.get("servertype", "").partition("-")
    cores = rest.partition("-")[0]
    if kind != KIND or labels.get("accelerator", "").partition("-")[2] != KIND or not cores.isdigit():
        return 0
    return int(cores) if int(cores) in _CORES else 0


def chips_of(node: core.Node, cores: int) -> tuple[Card, ...]:
    """Return the chips of a node: those that it lists in its annotation, else as many as its allocatable AI cores make up."""
    per_chip = cores_per_chip(node)
    if not per_chip:
        return ()
    notes = node.metadata.annotations
    unhealthy = set(_ids(notes.get(f"huawei.com/{KIND}-Unhealthy", "")))
    listed = notes.get(f"huawei.com/{KIND}")
    ids = [str(number) for number in range(cores // per_chip)] if listed is None else _ids(listed)
    return tuple(Card(each, CPUS, per_chip, KIND, each not in unhealthy, per_chip) for each in ids)


def _ids(text: str) -> list[str]:
    return [name.strip().removeprefix(f"{KIND}-") for name in text.split(",") if name.strip()]


def template_in(annotation: str) -> str:
    """Return the template in the annotation of a bound pod; empty for whole chips."""
    return annotation.partition("-")[2]


def shares_in(annotation: str, per_chip: int) -> tuple[CardShare, ...]:
    """Return the shares of a bound pod in chips: ``0,1`` for whole chips, ``0-vir02`` for a part of one."""
    chips, _, template = annotation.partition("-")
    part = TEMPLATES.get(template)
    if template and part is None:
        return ()
    return tuple(
        CardShare(each.strip(), part.cpus, part.cores) if part else CardShare(each.strip(), CPUS, per_chip)
        for each in chips.split(",")
        if each.strip()
    )
