"""Gangs whose pods must be near each other start wherever they fit, though the best node for the first leads elsewhere."""

from random import Random

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy_testing.notation import config, snapshot, world

ZONE = "topology.kubernetes.io/zone"
PLUGINS = "priority, gang | predicates, nodeorder, binpack"


def near(pod: core.Pod, app: str) -> core.Pod:
    """The pod, which must be in a zone of pods with this label."""
    term = core.PodAffinityTerm(topology_key=ZONE, label_selector=core.LabelSelector(match_labels={"app": app}))
    return replace(pod, spec=replace(pod.spec, affinity=core.Affinity(pod_affinity=core.PodAffinity(required=(term,)))))


def objects(text: str) -> list[Object]:
    """A world whose pods with the role web must be near pods with the label ``app=x``."""
    return [
        near(obj, "x") if isinstance(obj, core.Pod) and "-web-" in obj.metadata.name else obj for obj in world(text)
    ]


def zones(dice: Random) -> list[tuple[str, int, str]]:
    """Up to six nodes with their cpus and zones."""
    return [(f"n{number}", dice.randint(1, 4), dice.choice("abc")) for number in range(dice.randint(2, 6))]


def started(nodes: list[tuple[str, int, str]], job: str) -> set[str]:
    """The zones in which pods of a job start."""
    lines = [f"node {name} cpu={cpu} zone={zone}" for name, cpu, zone in nodes]
    plan = schedule(snapshot("", objects("\n".join([*lines, job]))), config(PLUGINS, "enqueue, allocate"))
    zone_of = {name: zone for name, _, zone in nodes}
    return {zone_of[bind.node] for bind in plan.of(Bind)}


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_of_equal_pods_starts_in_a_zone_that_holds_all(seed: int) -> None:
    dice = Random(seed)
    nodes, count = zones(dice), dice.randint(2, 6)
    fits = any(sum(cpu for _, cpu, own in nodes if own == zone) >= count for zone in "abc")
    assert len(started(nodes, f"job a min={count}: {count} x cpu=1 label.app=x role=web")) == fits


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_with_pods_near_others_of_it_starts_in_a_zone_that_holds_all(seed: int) -> None:
    dice = Random(seed)
    nodes, count = zones(dice), dice.randint(1, 4)
    fits = any(
        sum(cpu for _, cpu, own in nodes if own == zone) >= count + 2
        and any(cpu > 1 and own == zone for _, cpu, own in nodes)
        for zone in "abc"
    )
    job = f"job a min={count + 1}: 1 x cpu=2 label.app=x role=db, {count} x cpu=1 role=web"
    assert len(started(nodes, job)) == fits


def test_pods_that_must_be_apart_are_not_tried_again_and_again() -> None:
    nodes = [("n1", 4, "a"), ("n2", 4, "b")]
    assert started(nodes, "job a min=9: 9 x cpu=1 label.app=x role=web") == set()
