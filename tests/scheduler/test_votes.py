"""Combination of plugin results by the rules of Volcano."""

from dataclasses import dataclass

import pytest

from volcanopy.scheduler.policy.combine import first_tier, intersect, vote
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Vote, reject

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
    ("tiers", "victims"),
    [
        ([[[A, B], [B, C]]], [B]),
        ([[[], [A]], [[A, C]]], [A, C]),
        ([[None, [A]]], [A]),
        ([[None], [None]], []),
        ([[[A], [B]]], []),
    ],
)
def test_victims_are_the_intersection_of_a_tier(
    tiers: list[list[list[Candidate] | None]], victims: list[Candidate]
) -> None:
    methods = tuple(tuple(lambda _actor, _all, named=named: named for named in tier) for tier in tiers)
    assert intersect(methods)(None, [A, B, C]) == victims


def test_only_the_first_tier_with_a_plugin_decides_starvation() -> None:
    assert first_tier(((), (lambda _job: True,), (lambda _job: False,)))(None)
    assert not first_tier(((), ()))(None)
