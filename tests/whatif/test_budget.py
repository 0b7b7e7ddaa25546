"""The budget of a question counts work, and every waiting job gets its part of it."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.whatif.asking import bodies, engine, loaded
from volcanopy.api.core import Node
from volcanopy.whatif.answer import Answer, Limits, answer
from volcanopy.whatif.cluster import Cluster, Key
from volcanopy.whatif.engine import Budget, cycles_of
from volcanopy.whatif.remedies import nodes
from volcanopy.whatif.starts import Start

WAITING = 4
WORLD = "\n".join(
    ["node n1 cpu=4", "job r: 4 x cpu=1 on=n1", *(f"job w{number}: 4 x cpu=1" for number in range(WAITING))]
)


def asked(cycles: int) -> Answer:
    return answer(engine(loaded(bodies(WORLD)).cluster), Limits(Budget(100), Budget(cycles)))


@functools.cache
def cycles_used() -> int:
    search = Budget(100_000)
    answer(engine(loaded(bodies(WORLD)).cluster), Limits(Budget(100), search))
    return search.used


def test_every_job_is_answered_before_remedies_are_searched_for() -> None:
    alone = 2 * WAITING
    result = asked(alone + WAITING)
    assert {job.start for job in result.jobs if job.target.name.startswith("w")} == {Start.AFTER}


def test_the_searches_of_the_first_jobs_leave_the_later_ones_their_parts() -> None:
    result = asked(cycles_used() // 2)
    waiting = [job for job in result.jobs if job.target.name.startswith("w")]
    assert len(waiting) == WAITING
    assert all(job.remedies for job in waiting)


def test_what_a_job_does_not_use_is_for_the_later_ones() -> None:
    result = asked(cycles_used() + WAITING)
    assert all(job.searched for job in result.jobs if job.target.name.startswith("w"))


def test_the_work_of_a_second_follows_from_the_size_of_the_cluster() -> None:
    small = loaded(bodies("node n1 cpu=4")).cluster
    large = loaded(bodies("\n".join(f"node n{number} cpu=4" for number in range(1000)))).cluster
    assert cycles_of(small, 10.0) > cycles_of(large, 10.0) > 500
    assert cycles_of(small, 0.0) == 0


def test_the_cluster_without_jobs_is_made_once_for_all_jobs_that_are_tried_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Cluster] = []
    without = Cluster.without

    def counted(cluster: Cluster, removed: Callable[[Key, Any], bool]) -> Cluster:
        made.append(without(cluster, removed))
        return made[-1]

    monkeypatch.setattr(Cluster, "without", counted)
    asked(2 * WAITING)
    assert len(made) == 1
    assert not made[0].keys.keys() & {"Pod", "PodGroup", "BatchJob"}, "what a trial inserts is taken back"


def test_the_kinds_of_nodes_are_found_once_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    kind_of, cycles = nodes._kind, cycles_used()

    def counted(node: Node) -> str:
        compared.append(node.metadata.name)
        return kind_of(node)

    monkeypatch.setattr(nodes, "_kind", counted)
    asked(cycles + WAITING)
    assert compared == ["n1"]


def test_what_follows_from_a_cluster_is_computed_again_after_a_change() -> None:
    cluster = loaded(bodies(WORLD)).cluster
    cluster.commit()

    def count(of: Cluster) -> int:
        return len(of.keys.get("Node", ()))

    assert cluster.once(count) == 1
    with cluster.trial():
        cluster.remove("Node", "n1")
        assert cluster.once(count) == 0
    assert cluster.once(count) == 1
    cluster.remove("Node", "n1")
    cluster.commit()
    assert cluster.once(count) == 0
