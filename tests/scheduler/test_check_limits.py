"""Tests of the invariants of limits of users, groups and queues."""

import pytest

from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate, Plan, SetPodGroup
from volcanopy_testing.notation import snapshot

WORLD = """
    node n1 cpu=9
    queue root
    queue lab maxrunning=4 limit.user.ana.cpu=2 limit.user.*.running=1 limit.group.phd.cpu=3
    queue ml parent=lab
    job a queue=ml user=ana min=0: 1 x cpu=1 on=n1, 3 x cpu=1
    job b queue=ml user=bo groups=phd min=0: 2 x cpu=1 on=n1, 2 x cpu=1
    job c queue=ml user=bo phase=Pending: 1 x cpu=1
    job d queue=ml user=cy groups=staff+phd phase=Pending: 1 x cpu=1
    job e queue=ml user=dan phase=Pending: 1 x cpu=1
    job f queue=ml user=eva phase=Pending: 1 x cpu=1
    job over queue=ml user=ana phase=Running min=0: 1 x cpu=1
"""


def bind(pod: str) -> Bind:
    return Bind(f"default/{pod}", "n1")


def admit(job: str, phase: str = "Inqueue") -> SetPodGroup:
    return SetPodGroup(f"default/{job}", phase)


def wrong(*effects: Effect) -> list[str]:
    return violations(snapshot(WORLD), Plan(effects), ())


@pytest.mark.parametrize(
    "effects",
    [
        (bind("a-1"),),
        (bind("over-0"),),
        (bind("b-2"),),
        (admit("d"),),
        (bind("a-1"), bind("e-0"), admit("e", "Running")),
        (Evict("default/a-0", "preempt", preemptor="default/over"), Nominate("default/over-0", "n1"), bind("a-1")),
    ],
)
def test_a_plan_within_the_limits_is_valid(effects: tuple[Effect, ...]) -> None:
    assert wrong(*effects) == []


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ((bind("a-1"), bind("a-2")), "user ana in queue lab has 3 cpu allocated, limit is 2"),
        ((bind("a-1"), bind("over-0")), "user ana in queue lab has 3 cpu allocated, limit is 2"),
        ((bind("a-1"), Nominate("default/over-0", "n1")), "user ana in queue lab has 3 cpu allocated, limit is 2"),
        ((bind("b-2"), bind("d-0")), "group phd in queue lab has 4 cpu allocated, limit is 3"),
        ((admit("c"),), "user bo in queue lab runs 2 jobs, maxRunningJobs is 1"),
        ((admit("d"), admit("e", "Running")), "queue lab runs 5 jobs, maxRunningJobs is 4"),
    ],
)
def test_a_plan_that_exceeds_a_limit_has_violations(effects: tuple[Effect, ...], sentence: str) -> None:
    assert wrong(*effects) == [sentence]


def test_limits_exceeded_before_the_plan_are_no_violations() -> None:
    """User bo runs two jobs: a status change to Running is no admission."""
    text = WORLD.replace("user=bo phase=Pending: 1 x cpu=1", "user=bo min=1: 1 x cpu=1 on=n1, 1 x cpu=1")
    plan = Plan((admit("c", "Running"), bind("c-1")))
    assert violations(snapshot(text), plan, ()) == []


def test_an_admitted_job_that_starts_beyond_the_limit_is_a_violation() -> None:
    text = WORLD.replace("user=bo phase=Pending", "user=bo")
    expected = ["user bo in queue lab runs 2 jobs, maxRunningJobs is 1"]
    assert violations(snapshot(text), Plan((bind("c-0"),)), ()) == expected
