"""Columns of values of pods, which are kept across cycles."""

from random import Random
from typing import Any

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.pod_columns import of_each_pod


def pod(number: int) -> core.Pod:
    return core.Pod(metadata=core.Meta(name=f"p{number}", annotations={"n": str(number)}))


def column(*pods: core.Pod | None) -> "np.ndarray[Any, Any]":
    values = np.empty(len(pods), dtype=object)
    values[:] = pods
    return values


def test_only_pods_that_are_new_in_their_row_are_looked_at() -> None:
    dice, asked, lasting = Random(1), list[str](), dict[Any, Any]()
    pods: list[core.Pod | None] = [pod(number) for number in range(20)]

    def number_of(each: core.Pod) -> tuple[float]:
        asked.append(each.metadata.name)
        return (float(each.metadata.annotations["n"]),)

    of_each_pod(lasting, "n", column(*pods), (-1.0,), number_of)
    for cycle in range(50):
        asked.clear()
        row = dice.randrange(len(pods))
        pods[row] = None if dice.random() < 0.3 else pod(100 + cycle)
        longer = dice.random() < 0.2
        if longer:
            pods.append(pod(200 + cycle))
        elif dice.random() < 0.2:
            pods.pop()
        values = of_each_pod(lasting, "n", column(*pods), (-1.0,), number_of)
        new = {100 + cycle, 200 + cycle}
        assert {int(name[1:]) for name in asked} <= new
        assert values[:, 0].tolist() == [
            -1.0 if each is None else float(each.metadata.annotations["n"]) for each in pods
        ]
