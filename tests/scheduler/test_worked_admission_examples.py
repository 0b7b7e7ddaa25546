"""Admission and starvation examples, computed by hand from the definitions."""

import json
from typing import Any

import pytest

from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.model.plan import SetPodGroup
from volcanopy.scheduler.model.queue_shares import Bounds, capability
from volcanopy.scheduler.policy.config import parse
from volcanopy.scheduler.policy.roles import Moment
from volcanopy_testing.notation import snapshot


def session(text: str, *tiers: dict[str, dict[str, Any]], actions: str = "enqueue") -> Session:
    """A session with tiers of plugins, each with its arguments."""
    document = {
        "actions": actions,
        "tiers": [{"plugins": [{"name": name, "arguments": said} for name, said in tier.items()]} for tier in tiers],
    }
    return Session(snapshot(text), parse(json.dumps(document), builtin()))


def admits(asked: Session, job: str) -> bool:
    result = next(view for view in asked.waiting_jobs() if view.key == f"default/{job}")
    return asked.hooks.verdict(result, Moment.ENQUEUE).value >= 0


# Votes

OVERDUE: dict[str, dict[str, Any]] = {"sla": {"sla-waiting-time": "1h"}}
EARLY: dict[str, dict[str, Any]] = {"sla": {"sla-waiting-time": "48h"}}
FULL: dict[str, dict[str, Any]] = {"overcommit": {"overcommit-factor": 1.0}}
AMPLE: dict[str, dict[str, Any]] = {"overcommit": {"overcommit-factor": 9.0}}
"""The job waits for a day and asks for eight of four cpus."""


@pytest.mark.parametrize(
    ("tiers", "admitted"),
    [
        ([OVERDUE, FULL], True),
        ([OVERDUE | FULL], False),
        ([EARLY, AMPLE | {"proportion": {}}], False),
        ([EARLY], True),
        ([EARLY, AMPLE], True),
        ([FULL, OVERDUE], False),
    ],
    ids=[
        "a permit of an earlier tier ends the vote",
        "in one tier a rejection stands",
        "a permit does not outvote a rejection of its own tier",
        "when all abstain it is admitted",
        "who abstains leaves it to the next tier",
        "a rejection of an earlier tier stands",
    ],
)
def test_jobs_are_admitted_by_votes(tiers: list[dict[str, dict[str, Any]]], admitted: bool) -> None:
    text = "node n1 cpu=4\njob a phase=Pending minres.cpu=8:"
    assert admits(session(text, *tiers), "a") is admitted


@pytest.mark.parametrize(("cpus", "admitted"), [(5, True), (6, False)])
def test_overcommit_subtracts_running_and_admitted_jobs(cpus: int, admitted: bool) -> None:
    """Ten cpus with overcommit are twelve; three are used and a job of four is admitted: five are left."""
    text = f"""
        node n1 cpu=10
        job r: 3 x cpu=1 on=n1
        job i minres.cpu=4:
        job a phase=Pending minres.cpu={cpus}:
    """
    assert admits(session(text, {"overcommit": {}}), "a") is admitted


@pytest.mark.parametrize(("cpus", "admitted"), [(8, True), (9, False)])
def test_overcommit_counts_only_the_missing_part_of_a_running_job(cpus: int, admitted: bool) -> None:
    """Of twelve, three are used by a job with a minimum of four: eight are left."""
    text = f"""
        node n1 cpu=10
        job r min=3 phase=Running minres.cpu=4: 3 x cpu=1 on=n1
        job a phase=Pending minres.cpu={cpus}:
    """
    assert admits(session(text, {"overcommit": {}}), "a") is admitted


def test_overcommit_admits_nothing_to_an_overcommitted_cluster() -> None:
    text = "node n1 cpu=2\njob r: 4 x cpu=1 on=n1\njob a phase=Pending minres.cpu=1:"
    assert not admits(session(text, {"overcommit": {}}), "a")


@pytest.mark.parametrize("plugin", ["overcommit", "proportion", "capacity"])
@pytest.mark.parametrize(("flag", "admitted"), [("", False), ("gated", True)])
def test_gated_pods_of_admitted_jobs_reserve_nothing(plugin: str, flag: str, admitted: bool) -> None:
    """All ten are reserved for an admitted job; if its pods are gated it cannot use them, and another is admitted."""
    text = f"""
        node n1 cpu=10
        job i min=10 minres.cpu=10: 10 x cpu=1 {flag}
        job a phase=Pending minres.cpu=5:
    """
    assert admits(session(text, {plugin: {}}), "a") is admitted


@pytest.mark.parametrize(("flag", "admitted"), [("", 1), ("gated", 2)])
def test_gated_pods_of_newly_admitted_jobs_reserve_nothing(flag: str, admitted: int) -> None:
    text = f"""
        node n1 cpu=10
        job i min=10 phase=Pending minres.cpu=10: 10 x cpu=1 {flag}
        job a phase=Pending minres.cpu=5:
    """
    asked = session(text, {"proportion": {}})
    plan = schedule(asked.snapshot, asked.config)
    assert sum(effect.phase == "Inqueue" for effect in plan.of(SetPodGroup)) == admitted


# What a queue may have


def test_guarantees_of_other_queues_stay_free() -> None:
    """Of ten cpus queue a is guaranteed four: a may use all, the others six."""
    world = snapshot("node n1 cpu=10\nqueue a guarantee.cpu=4\nqueue b\nqueue c weight=2")
    limits = queue_demand.within_guarantees(
        world.total, world.queues, Bounds(world.queues.guarantee.values, capability(world.queues))
    )
    index = world.queues.index
    assert {name: int(limits[0, index[name]]) for name in "abc"} == {"a": 10000, "b": 6000, "c": 6000}


def test_satisfied_queues_are_both_done() -> None:
    text = "node n1 cpu=10\nqueue a\nqueue b\njob a queue=a: 3 x cpu=1 on=n1\njob b queue=b: 3 x cpu=1 on=n1"
    asked = session(text, {"proportion": {}})
    index = asked.snapshot.queues.index
    assert all(asked.hooks.queue_verdict(asked.cluster.queue(index[name])) is not None for name in "ab")


# Gangs

GANG: dict[str, dict[str, Any]] = {"priority": {}, "gang": {}}


@pytest.mark.parametrize(("running", "starves"), [(1, True), (2, False), (3, False)])
def test_by_default_a_job_starves_while_its_gang_lacks_members(running: int, starves: bool) -> None:
    """Three pods, minimum two: priority considers the job starving up to the third pod, gang only up to the second."""
    rest = f", {3 - running} x cpu=1" if running < 3 else ""
    asked = session(f"node n1 cpu=9\njob a min=2: {running} x cpu=1 on=n1{rest}", GANG)
    assert asked.gangs.is_starving(asked.cluster.job(int(asked.job_rows[0]))) is starves


@pytest.mark.parametrize(
    ("before", "running", "after"),
    [("Inqueue", 1, "Unknown"), ("Inqueue", 0, "Inqueue"), ("Running", 0, "Pending"), ("Pending", 0, "Pending")],
)
def test_status_of_a_gang_of_three_that_cannot_start(before: str, running: int, after: str) -> None:
    runs = f"{running} x cpu=1 on=n1, " if running else ""
    asked = session(f"node n1 cpu=1\njob a min=3 phase={before}: {runs}{3 - running} x cpu=9", GANG, {"predicates": {}})
    config = parse(json.dumps({"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}), builtin())
    if before == "Pending":
        config = parse(json.dumps({"actions": "backfill", "tiers": [{"plugins": [{"name": "gang"}]}]}), builtin())
    plan = schedule(asked.snapshot, config)
    assert {effect.phase for effect in plan.of(SetPodGroup)} == {after}


def test_a_terminating_gang_is_not_unschedulable() -> None:
    plan = schedule(
        snapshot("node n1 cpu=4\njob a min=2 phase=Running: 1 x cpu=1 on=n1, 1 x cpu=1 on=n1 releasing"),
        parse(json.dumps({"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}), builtin()),
    )
    assert [effect.condition for effect in plan.of(SetPodGroup)] == [None]
