"""network-topology-aware: order and scores of hypernodes and nodes."""

import numpy as np
import pytest

from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import config, snapshot

WORLD = """
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    node n4 cpu=4
    node n5 cpu=8
    hypernode r1 tier=1: n1 n2
    hypernode r2 tier=1: n3 n4
    hypernode r3 tier=1: n5
    hypernode h1 tier=2: r1 r2
    job x: 1 x cpu=3 on=n1
"""
PLUGINS = "gang, predicates, network-topology-aware"


def session(text: str, arguments: str = "") -> tuple[Session, JobView]:
    document = config(PLUGINS)
    if arguments:
        document = parse(
            f"actions: allocate\ntiers:\n- plugins:\n  - name: network-topology-aware\n{arguments}", builtin()
        )
    made = Session(snapshot(text), document)
    return made, next(job for job in made.waiting_jobs() if job.key == "default/a")


def groups(text: str, arguments: str = "", *, to_evict: bool = False) -> list[list[str]]:
    made, job = session(text, arguments)
    table = made.snapshot.hypernodes
    return [
        [table.names[row] for row in rows.tolist()]
        for rows in made.hypernodes.groups(job, table.top, to_evict=to_evict)
    ]


def test_the_lowest_tiers_are_tried_first() -> None:
    assert groups(f"{WORLD}\njob a topology=hard:2: 1 x cpu=1") == [["r1", "r2", "r3"], ["h1"]]


def test_hypernodes_without_free_resources_are_not_tried() -> None:
    assert groups(f"{WORLD}\njob a topology=hard:2: 2 x cpu=4") == [["r2", "r3"], ["h1"]]


def test_resources_for_the_minimum_suffice() -> None:
    """Six pods wait, but two are enough to start with."""
    assert groups(f"{WORLD}\njob a min=2 topology=hard:1: 6 x cpu=4") == [["r2", "r3"]]


def test_a_preferred_topology_falls_back_to_the_whole_cluster() -> None:
    assert groups(f"{WORLD}\njob a topology=soft: 2 x cpu=4") == [["r2", "r3"], ["h1"], ["<cluster>"]]


def test_a_job_without_a_topology_is_tried_in_the_cluster() -> None:
    assert groups(f"{WORLD}\njob a: 1 x cpu=1") == [["<cluster>"]]


def test_a_running_job_is_tried_around_its_pods_without_free_resources() -> None:
    assert groups(f"{WORLD}\njob a topology=hard:2: 1 x cpu=1 on=n2, 2 x cpu=4") == [["r1", "r2"], ["h1"]]


def test_for_evictions_the_largest_hypernodes_are_first_and_used_resources_count() -> None:
    assert groups(f"{WORLD}\njob a topology=hard:2: 2 x cpu=4", to_evict=True) == [["h1"], ["r1", "r2", "r3"]]


def test_for_evictions_the_number_of_hypernodes_is_limited() -> None:
    arguments = "    arguments: {hypernode.gradient.evict.max-hypernodes: 3}"
    assert groups(f"{WORLD}\njob a topology=hard:2: 2 x cpu=4", arguments, to_evict=True) == [
        ["h1"],
        ["r2", "r3"],
    ]


def test_the_fuller_hypernode_scores_higher_and_an_insufficient_one_zero() -> None:
    made, job = session(f"{WORLD}\njob a topology=hard:1: 2 x cpu=4")
    part = made.cluster.parts(job)[0]
    scores = made.hypernodes.scores(part, np.array([0, 1, 2]))
    assert scores.tolist() == [0.0, 100.0, 100.0]
    made, job = session(f"{WORLD}\njob a topology=hard:1: 1 x cpu=1")
    scores = made.hypernodes.scores(made.cluster.parts(job)[0], np.array([0, 1, 2]))
    assert scores.tolist() == [50.0, 12.5, 12.5]


def test_of_equally_full_hypernodes_the_one_with_more_of_the_job_scores_higher() -> None:
    text = WORLD.replace("job x: 1 x cpu=3 on=n1", "job x: 1 x cpu=1 on=n3")
    made, job = session(f"{text}\njob a topology=hard:2: 1 x cpu=1 on=n1, 1 x cpu=1")
    scores = made.hypernodes.scores(made.cluster.parts(job)[0], np.array([0, 1]))
    assert scores.tolist() == [37.5 + 50.0, 37.5]


@pytest.mark.parametrize(
    ("arguments", "argument_error"),
    [
        ("{weight: -1}", "weight"),
        ("{hypernode.binpack.cpus: 1}", "hypernode.binpack.cpu"),
        ("{hypernode.binpack.resources: [a]}", "separated by commas"),
    ],
)
def test_an_invalid_argument_is_rejected(arguments: str, argument_error: str) -> None:
    with pytest.raises(ConfigError, match=argument_error):
        session(WORLD, f"    arguments: {arguments}")
