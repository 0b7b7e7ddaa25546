"""A gang whose pods claim devices starts if some assignment of the devices to its pods exists, whatever their order."""

from itertools import permutations, product

import pytest

from volcanopy.scheduler.model.plan import Bind
from volcanopy_testing.notation import config, decide

PLUGINS = config("priority, gang | predicates, proportion, nodeorder", actions="enqueue, allocate")
MODELS = ("big", "small", "tiny")


def started(classes: tuple[str, ...]) -> int:
    """The number of pods that start of a gang with a pod for each of these classes; each model has one device."""
    lines = ["node n1 cpu=8", "deviceclass any"]
    for model in MODELS:
        lines += [f"deviceclass {model} model={model}", f"devices {model} everywhere count=1 model={model}"]
    lines += [f"claim c{number} class={name}" for number, name in enumerate(classes)]
    pods = ", ".join(f"1 x cpu=1 role=r{number} claim=c{number}" for number in range(len(classes)))
    return len(decide("\n".join([*lines, f"job gang: {pods}"]), PLUGINS).of(Bind))


def can_start(classes: tuple[str, ...]) -> bool:
    return any(
        all(name in {"any", model} for name, model in zip(classes, models, strict=False))
        for models in permutations(MODELS)
    )


@pytest.mark.parametrize("size", [2, 3])
def test_a_gang_starts_if_its_pods_can_get_devices(size: int) -> None:
    for classes in product(("any", *MODELS), repeat=size):
        assert started(classes) == (size if can_start(classes) else 0), classes
