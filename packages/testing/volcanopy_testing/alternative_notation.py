"""Notation of the alternatives of jobs.

``job a min=2 phase=Pending alternative.gpu=cpu=1,gpu=1,time=10m alternative.cpu=cpu=8,time=2h`` is a job of two pods that
runs with a GPU for each, or with 8 cpus. ``select.KEY=VALUE`` is a node selector, ``tolerates=KEY`` a toleration of a taint.
"""

from collections.abc import Mapping

from volcanopy.api import core, quantity

_PREFIX = "alternative."
_GPU = "nvidia.com/gpu"


def alternatives(values: Mapping[str, str], pods: int) -> tuple[core.PodGroupAlternative, ...]:
    """Return the alternatives among the values of a line, for so many pods."""
    return tuple(
        _alternative(key.removeprefix(_PREFIX), value, pods) for key, value in values.items() if key.startswith(_PREFIX)
    )


def _alternative(name: str, text: str, pods: int) -> core.PodGroupAlternative:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    time, tolerates = fields.pop("time", ""), fields.pop("tolerates", "")
    selector = {key.removeprefix("select."): fields.pop(key) for key in list(fields) if key.startswith("select.")}
    requests = {_GPU if key == "gpu" else key: value for key, value in fields.items()}
    total = {key: units * pods for key, units in quantity.amounts(requests).items()} | {"pods": pods}
    task = core.PodGroupAlternativeTask(
        name="main",
        pods=pods,
        requests=dict(requests),
        node_selector=selector,
        tolerations=(core.Toleration(key=tolerates, operator="Exists"),) if tolerates else (),
    )
    return core.PodGroupAlternative(
        name=name, min_resources=dict(quantity.texts(total)), running_estimate=time, tasks=(task,)
    )
