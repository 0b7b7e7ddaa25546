"""Combination of plugin results by the rules of Volcano."""

from dataclasses import dataclass

import pytest

from volcanopy.scheduler.policy.combine import first_tier, unprotected, victims, vote
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose

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


def test_only_the_first_tier_with_a_plugin_decides_starvation() -> None:
    assert first_tier(((), (lambda _job: True,), (lambda _job: False,)))(None)
    assert not first_tier(((), ()))(None)
