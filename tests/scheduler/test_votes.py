"""Combination of plugin results by the rules of Volcano."""

from dataclasses import dataclass

import pytest

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.policy.combine import unprotected, victims, vote
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose
from volcanopy_testing.notation import config, snapshot

NO = reject("test", "no")


@pytest.mark.parametrize(
    ("tiers", "admitted"),
    [
        ([[PERMIT], [NO]], True),
        ([[PERMIT, NO]], False),
        ([[ABSTAIN], [PERMIT, NO]], False),
        ([[ABSTAIN], [ABSTAIN]], True),
        ([[NO], [PERMIT]], False),
        ([], True),
    ],
)
def test_votes_are_combined_by_tier_and_a_rejection_is_final(tiers: list[list[Vote]], admitted: bool) -> None:
    methods = tuple(tuple(lambda _job, said=said: said for said in tier) for tier in tiers)
    assert (vote(methods)(None).value >= 0) is admitted


@dataclass(frozen=True)
class Candidate:
    row: int


A, B, C = Candidate(1), Candidate(2), Candidate(3)


@pytest.mark.parametrize(
    ("tiers", "agreed"),
    [
        ([[[A, B], [B, C]]], [B]),
        ([[[], [A]], [[A, C]]], [A, C]),
        ([[None, [A]]], [A]),
        ([[None], [None]], []),
        ([[[A], [B]]], []),
    ],
)
def test_victims_are_the_intersection_of_a_tier(
    tiers: list[list[list[Candidate] | None]], agreed: list[Candidate]
) -> None:
    methods = tuple(tuple(lambda *_, allowed=allowed: allowed for allowed in tier) for tier in tiers)
    assert victims(methods, unprotected((), Purpose.PREEMPT), Purpose.PREEMPT)(None, [A, B, C]) == agreed


def test_a_tier_whose_victims_are_protected_leaves_the_decision_to_the_next() -> None:
    tiers = ((lambda *_: [A],), (lambda *_: [A, B, C],))
    protections = (
        lambda _, victims, __: [victim for victim in victims if victim != A],
        lambda _, victims, __: victims[:1],
    )
    assert victims(tiers, unprotected(protections, Purpose.RECLAIM), Purpose.RECLAIM)(None, [A, B, C]) == [B]


@pytest.mark.parametrize(
    ("plugins", "starves"),
    [("predicates | gang | priority", False), ("predicates | priority | gang", True), ("predicates", False)],
)
def test_only_the_first_tier_with_a_rule_decides_whether_a_job_starves(plugins: str, starves: bool) -> None:
    """The job has its minimum, and a task that waits."""
    session = Session(snapshot("node n1 cpu=1\njob a min=1: 1 x cpu=1 on=n1, 1 x cpu=1"), config(plugins))
    assert session.gangs.is_starving(session.cluster.job(int(session.job_rows[0]))) is starves


@pytest.mark.parametrize(
    ("plugins", "purposes"),
    [
        ("conformance | predicates", {Purpose.PREEMPT, Purpose.RECLAIM}),
        ("conformance | priority", set(Purpose) - {Purpose.SHUFFLE}),
    ],
)
def test_a_policy_that_only_protects_allows_single_pods_and_abstains_about_bundles(
    plugins: str, purposes: set[Purpose]
) -> None:
    state = "class high value=9\nnode n1 cpu=2\njob low min=2: 2 x cpu=1 on=n1\njob a min=2 priority=high: 2 x cpu=1"
    session = Session(snapshot(state), config(plugins))
    low, high = session.cluster.task(0), session.cluster.task(2)
    asked = set(Purpose) - {Purpose.SHUFFLE}
    assert {purpose for purpose in asked if session.hooks.victims[purpose](high, [low])} == purposes
