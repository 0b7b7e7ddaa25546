"""capacity in a tree: what the children of a queue leave of its share is for those of them that request more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.plan import Evict, SetQueue
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import decide, world


def configured(level: int | None = None) -> SchedulerConfig:
    arguments = "" if level is None else f", arguments: {{ancestorReclaimLevel: {level}}}"
    return parse(
        f"""
        actions: enqueue, allocate, reclaim, backfill
        tiers:
        - plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
        - plugins: [{{name: overcommit}}, {{name: predicates}}, {{name: capacity, enableHierarchy: true{arguments}}}]
        """,
        builtin(),
    )


def outcome(text: str, level: int | None = None) -> tuple[dict[str, int], list[str]]:
    """The running pods by job, and the jobs of the evicted pods."""
    simulation, evicted = Simulation(world(text), configured(level)), list[str]()
    for plan in simulation.cycles(25):
        evicted += [effect.group.removeprefix("default/") for effect in plan.of(Evict)]
    counts: dict[str, int] = {}
    for key in simulation.cluster.keys["Pod"]:
        pod = simulation.pod(key)
        if pod is not None and pod.spec.node_name:
            name = key.removeprefix("default/").rpartition("-")[0]
            counts[name] = counts.get(name, 0) + 1
    return counts, evicted


def nodes(count: int) -> str:
    return "".join(f"node n{number} cpu=1\n" for number in range(count))


def on(first: int, last: int) -> str:
    return ",".join(f"n{number}" for number in range(first, last))


def test_a_queue_two_levels_below_reclaims_what_its_ancestors_deserve() -> None:
    text = """
        node n1 cpu=2
        queue root
        queue r parent=root deserved.cpu=2
        queue c parent=r deserved.cpu=2
        queue q parent=c
        queue o parent=r
        job x queue=o min=1: 1 x cpu=2 on=n1
        job y queue=q: 1 x cpu=2
    """
    counts, evicted = outcome(text)
    assert (counts, evicted) == ({"y": 1}, ["x"])


TEAMS = """
queue root
queue team parent=root deserved.cpu=8
queue other parent=root deserved.cpu=4
queue lab parent=team {lab}
queue desk parent=team {desk}
"""


@pytest.mark.parametrize(("lab", "desk"), [("deserved.cpu=6", "deserved.cpu=2"), ("deserved.cpu=6", ""), ("", "")])
def test_a_child_reclaims_what_its_sibling_leaves(lab: str, desk: str) -> None:
    text = nodes(12) + TEAMS.format(lab=lab, desk=desk)
    text += f"job o queue=other min=1: 12 x cpu=1 on={on(0, 12)}\njob d queue=desk min=1: 8 x cpu=1\n"
    counts, evicted = outcome(text)
    assert counts == {"o": 4, "d": 8}
    assert evicted == ["o"] * 8


def test_the_branch_above_its_share_loses_before_a_sibling_that_uses_what_was_left() -> None:
    text = nodes(12) + TEAMS.format(lab="deserved.cpu=6", desk="deserved.cpu=2")
    text += f"job o queue=other min=1: 8 x cpu=1 on={on(0, 8)}\njob d queue=desk min=1: 4 x cpu=1 on={on(8, 12)}\n"
    counts, evicted = outcome(text + "job l queue=lab min=1: 4 x cpu=1\n")
    assert counts == {"o": 4, "d": 4, "l": 4}
    assert evicted == ["o"] * 4


def test_a_sibling_gives_back_what_its_owner_requests() -> None:
    text = nodes(12) + TEAMS.format(lab="deserved.cpu=6", desk="deserved.cpu=2")
    text += f"job o queue=other min=1: 4 x cpu=1 on={on(0, 4)}\njob d queue=desk min=1: 8 x cpu=1 on={on(4, 12)}\n"
    counts, evicted = outcome(text + "job l queue=lab min=1: 6 x cpu=1\n")
    assert counts == {"o": 4, "d": 2, "l": 6}
    assert evicted == ["d"] * 6


@pytest.mark.parametrize("level", [None, 0])
def test_a_gang_reclaims_what_its_queue_deserves_where_the_cluster_is_smaller_than_all_shares(
    level: int | None,
) -> None:
    """Its sibling has inherited only what the cluster has left of the parent's share beside the other queue."""
    text = nodes(9) + TEAMS.format(lab="deserved.cpu=6", desk="deserved.cpu=2")
    text += f"job o queue=other min=1: 4 x cpu=1 on={on(0, 4)}\njob d queue=desk min=1: 5 x cpu=1 on={on(4, 9)}\n"
    counts, evicted = outcome(text + "job l queue=lab: 3 x cpu=1\n", level)
    assert counts == {"o": 4, "d": 2, "l": 3}
    assert evicted == ["d"] * 3


@examples(25)
@given(st.tuples(*[st.integers(0, 6)] * 3), st.integers(0, 12), st.integers(0, 12))
def test_siblings_together_use_what_their_parent_deserves(deserved: tuple[int, int, int], lab: int, desk: int) -> None:
    team = max(deserved[2], deserved[0] + deserved[1])
    text = (
        nodes(12)
        + f"queue root\nqueue team parent=root deserved.cpu={team}\nqueue other parent=root deserved.cpu={max(12 - team, 0)}\n"
    )
    text += f"queue lab parent=team deserved.cpu={deserved[0]}\nqueue desk parent=team deserved.cpu={deserved[1]}\n"
    text += f"job o queue=other min=1: 12 x cpu=1 on={on(0, 12)}\n"
    text += "".join(
        f"job {name} queue={name} min=1: {count} x cpu=1\n" for name, count in (("lab", lab), ("desk", desk)) if count
    )
    counts, _ = outcome(text)
    assert counts.get("lab", 0) + counts.get("desk", 0) == min(team, lab + desk)
    assert counts.get("lab", 0) >= min(lab, deserved[0])
    assert counts.get("desk", 0) >= min(desk, deserved[1])


def test_the_reported_share_of_the_root_is_at_most_the_cluster() -> None:
    """The busy queue inherits what its idle sibling leaves, and the idle one keeps its own: together more than there is."""
    text = """
    node n1 cpu=12
    queue root
    queue a deserved.cpu=8
    queue a-idle parent=a deserved.cpu=4
    queue a-busy parent=a deserved.cpu=4
    queue b deserved.cpu=4
    job x queue=a-busy: 12 x cpu=1 on=n1
    """
    shares = {effect.queue: effect.fair_share.get("cpu") for effect in decide(text, configured()).of(SetQueue)}
    assert shares["root"] == "12"
    assert shares["a-busy"] == "8"
