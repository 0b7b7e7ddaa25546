"""Jobs whose ends do the same: where one of them is needed, the others are, and no trial is made for each."""

from collections.abc import Iterator
from random import Random

import pytest

from tests import nightly
from tests.whatif.asking import bodies, engine, loaded, remedies
from volcanopy.api.model import Json
from volcanopy.whatif.answer import Limits, answer
from volcanopy.whatif.engine import Budget
from volcanopy.whatif.remedies import jobs

PACKED = "\n".join(
    [
        *(f"node n{number} cpu=4 pods=9" for number in range(6)),
        *(f"job r{number} phase=Running: 4 x cpu=1 on=n{number}" for number in range(6)),
        "job a: 5 x cpu=4",
    ]
)


def asked(text: str) -> tuple[list[Json], int]:
    """The answers about a world, and the cycles that their search took."""
    search = Budget(5000)
    result = answer(engine(loaded(bodies(text)).cluster), Limits(Budget(100), search))
    return [job.document() for job in result.jobs], search.used


def test_all_equal_jobs_are_needed_where_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, cycles = asked(PACKED)
    monkeypatch.setattr(jobs, "_effect", lambda *_: None)
    assert asked(PACKED) == (answers, cycles + 4)  # without the last of the fewest it was tried already
    assert sum(remedy["text"].startswith("end of job") for remedy in answers[0]["remedies"]) == 1


@pytest.mark.parametrize(
    "different",
    [
        "node n0 cpu=4 pods=9 label.disk=ssd",  # another kind of node
        "node n0 cpu=5 pods=9",  # another size
        "job o phase=Running: 1 x on=n0",  # a node with another pod, which stays
    ],
)
def test_jobs_on_different_nodes_do_not_do_the_same(different: str) -> None:
    kind, name = different.split()[:2]
    lines = [line for line in PACKED.splitlines() if line.split()[:2] != [kind, name]]
    cluster = loaded(bodies("\n".join([*lines, different]))).cluster
    effects = {group: jobs._effect(cluster, group, steps) for group, _, steps, *_ in jobs._ends(cluster)}
    assert effects["default/r0"] != effects["default/r1"] == effects["default/r2"]


@pytest.mark.parametrize("line", ["hypernode s tier=1: n0 n1 n2", "pvc data\njob v: 1 x cpu=1 pvc=data", ""])
def test_each_job_is_tried_where_names_of_nodes_may_matter(line: str) -> None:
    manifests = bodies(f"{PACKED}\n{line}")
    if not line:
        term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
        manifests[-1]["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    cluster = loaded(manifests).cluster
    assert {jobs._effect(cluster, group, steps) for group, _, steps, *_ in jobs._ends(cluster)} == {None}


def test_of_equal_jobs_on_nodes_of_two_kinds_only_those_end_that_help() -> None:
    text = "\n".join(
        [
            *(f"node n{number} cpu=4{' label.disk=ssd' if number == 3 else ''}" for number in range(4)),
            *(f"job r{number} phase=Running: 4 x cpu=1 on=n{number}" for number in range(4)),
            "job a: 1 x cpu=4 selector.disk=ssd",
        ]
    )
    assert 'end of job "r3" (cpu 4)' in remedies(text, "a")


def test_equal_jobs_beside_different_ones_do_not_do_the_same() -> None:
    text = "\n".join(
        [
            *(f"node n{number} cpu=4" for number in range(2)),
            *(f"job r{number} phase=Running: 2 x cpu=1 on=n{number}" for number in range(2)),
            *(f"job s{number} phase=Running: 2 x cpu=1 on=n{number}" for number in range(2)),
        ]
    )
    cluster = loaded(bodies(text)).cluster
    assert len({jobs._effect(cluster, group, steps) for group, _, steps, *_ in jobs._ends(cluster)}) == 4


@pytest.mark.parametrize("seeds", nightly.seeds(3, 300, 3, 25))
def test_the_answers_are_those_of_trials_of_all_parts(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = 0
    for seed in seeds:
        text = "\n".join(_lines(Random(seed)))
        answers, cycles = asked(text)
        with monkeypatch.context() as context:
            context.setattr(jobs, "_effect", lambda *_: None)
            all_answers, all_cycles = asked(text)
        assert answers == all_answers, f"seed {seed}\n{text}"
        saved += all_cycles - cycles
    assert saved > 0


def _lines(rng: Random) -> Iterator[str]:
    """A world of nodes of two kinds that are full of jobs, some of them on two nodes, and waiting gangs."""
    count = rng.randint(4, 8)
    for number in range(count):
        yield f"node n{number} cpu={rng.choice([4] * 7 + [6])} pods=20{rng.choice([''] * 5 + [' label.disk=ssd'])}"
    yield "queue q"
    for number in range(count):
        nodes = rng.choice([[number]] * 5 + [[number, (number + 1) % count]])
        pods = ", ".join(f"{4 // len(nodes)} x cpu=1 on=n{node}" for node in nodes)
        yield f"job r{number} queue={rng.choice(['default', 'default', 'q'])} phase=Running: {pods}"
    for number in range(rng.randint(1, 2)):
        selector = rng.choice(["", "", " selector.disk=ssd"])
        yield f"job w{number} queue={rng.choice(['default', 'q'])}: {rng.randint(2, 6)} x cpu={rng.randint(3, 4)}{selector}"
