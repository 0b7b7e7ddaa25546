"""The definitions of the invariants beside those of the scheduler: written apart, they must agree."""

import ast
from pathlib import Path
from random import Random

import numpy as np
import pytest

import volcanopy.scheduler.invariants
from tests import nightly
from volcanopy.api import core
from volcanopy.scheduler.cache import shapes
from volcanopy.scheduler.invariants import node_rules, plan_outcome, queue_bounds
from volcanopy.scheduler.model import queue_shares, selectors
from volcanopy_testing import random_worlds
from volcanopy_testing.notation import snapshot

UNITS = ("250m", "1", "2", "500m")


def test_of_the_statuses_only_the_enumeration_is_shared() -> None:
    shared = {
        alias.name
        for path in Path(volcanopy.scheduler.invariants.__path__[0]).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "volcanopy.scheduler.model.task_status"
        for alias in node.names
    }
    assert shared == {"Status"}


def _resources(rng: Random) -> core.ResourceRequirements:
    def amounts() -> core.Quantities:
        named = {"cpu": rng.choice(UNITS), "memory": rng.choice(["1Gi", "3Gi"]), "hugepages-2Mi": "4Mi", "x.y/gpu": "1"}
        return {name: text for name, text in named.items() if rng.randint(0, 1)}

    return core.ResourceRequirements(requests=amounts(), limits=amounts())


def _spec(rng: Random) -> core.PodSpec:
    return core.PodSpec(
        containers=tuple(core.Container(resources=_resources(rng)) for _ in range(rng.randint(1, 3))),
        init_containers=tuple(
            core.Container(resources=_resources(rng), restart_policy=rng.choice(["", "Always"]))
            for _ in range(rng.randint(0, 3))
        ),
        resources=_resources(rng) if not rng.randint(0, 2) else None,
        overhead={"cpu": "100m"} if not rng.randint(0, 2) else {},
    )


def test_requests_agree() -> None:
    for seed in range(300):
        spec = _spec(Random(seed))
        counted = {name: units for name, units in plan_outcome.request_of(spec).items() if units}
        assert counted == {name: units for name, units in shapes.request_of(spec).items() if units}, seed


def _queues(rng: Random) -> str:
    lines, parents = ["node n1 cpu=17 memory=64Gi", "queue root"], ["root"]
    for number in range(rng.randint(1, 5)):
        tokens = [f"weight={rng.randint(1, 4)}", f"parent={rng.choice(parents)}"]
        for key in ("capability.cpu", "guarantee.cpu", "deserved.cpu", "borrow.cpu", "lend.cpu"):
            tokens += [f"{key}={rng.randint(0, 9)}"] if not rng.randint(0, 2) else []
        lines.append(f"queue q{number} {' '.join(tokens)}")
        parents.append(f"q{number}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("by_weight", "in_tree", "alone"),
    [(True, True, False), (True, False, False), (False, True, False), (True, True, True)],
)
@pytest.mark.parametrize("seeds", nightly.seeds(100, 300, 100, 200))
def test_bounds_of_queues_agree_up_to_a_unit(by_weight: bool, in_tree: bool, alone: bool, seeds: range) -> None:
    for seed in seeds:
        seen = snapshot(_queues(Random(seed)))
        own = queue_bounds.bounds(seen, by_weight=by_weight, in_tree=in_tree, alone=alone)
        other = queue_shares.bounds(seen.total, seen.queues, by_weight=by_weight, in_tree=in_tree, alone=alone)
        assert np.abs(own.limit - other.limit).max() <= 1, seed
        assert np.abs(own.reserved - other.reserved).max() <= 1, seed


@pytest.mark.parametrize("seed", range(40))
def test_node_selectors_agree(seed: int) -> None:
    rng = Random(seed)
    nodes = snapshot(random_worlds.world(rng)).nodes.traits.objects
    keys = ["topology.kubernetes.io/zone", "kubernetes.io/hostname", "a"]
    terms = tuple(
        core.NodeSelectorTerm(
            match_expressions=tuple(
                core.Requirement(
                    key=rng.choice(keys),
                    operator=rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "?"]),
                    values=tuple(rng.sample(["a", "b", "n0", "3", ""], rng.randint(0, 2))),
                )
                for _ in range(rng.randint(0, 2))
            ),
        )
        for _ in range(rng.randint(0, 2))
    )
    selector = core.NodeSelector(node_selector_terms=terms)
    for node in nodes:
        assert node_rules.selects(selector, node) == selectors.admits(selector, node)
