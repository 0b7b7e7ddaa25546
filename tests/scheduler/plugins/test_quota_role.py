"""The role Quota: what follows from the shares that a policy returns and nothing else."""

import json
from typing import Any, ClassVar

import numpy as np
import pytest

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.model.queue_shares import Shares
from volcanopy.scheduler.model.resources import UNLIMITED
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.scheduler.policy.roles import Purpose, Quota
from volcanopy_testing.notation import all_policies, decide, snapshot


class Equal(Plugin[NoArguments], Quota):
    """Queues q1 and q2 share the cluster equally; q1 has at most six cpus."""

    name: ClassVar[str] = "equal"

    def shares(self) -> Shares:
        snapshot = self.cluster.snapshot
        fair = np.repeat(snapshot.total[:, None] // 2, len(snapshot.queues), axis=1)
        limit = np.full_like(fair, UNLIMITED)
        limit[0, snapshot.queues.index["q1"]] = 6000
        return Shares(fair, limit, np.zeros_like(fair))


class FloatGuarantee(Equal):
    """A policy with a wrong table."""

    def shares(self) -> Shares:
        right = super().shares()
        return Shares(right.fair, right.limit, right.guarantee.astype(np.float64))


class SingleColumn(Equal):
    """A policy with one number for all queues."""

    def shares(self) -> Shares:
        right = super().shares()
        return Shares(right.fair[:, 0], right.limit, right.guarantee)


REGISTRY = Registry({**all_policies().plugins, "equal": Equal}, all_policies().actions)


def config(actions: str, **switches: Any) -> SchedulerConfig:
    entries = [{"name": "gang"}, {"name": "predicates"}, {"name": "equal", **switches}]
    return parse(json.dumps({"actions": actions, "tiers": [{"plugins": entries}]}), REGISTRY)


QUEUES = "node n1 cpu=8\nqueue q1\nqueue q2\n"


@pytest.mark.parametrize(("queue", "bound"), [("q1", 6), ("q2", 8)])
def test_a_queue_borrows_idle_resources_up_to_its_limit(queue: str, bound: int) -> None:
    plan = decide(f"{QUEUES}job a queue={queue} min=0: 8 x cpu=1", config("allocate"))
    assert len(plan.of(Bind)) == bound


def test_queues_are_allocated_their_fair_shares_before_any_borrows() -> None:
    plan = decide(f"{QUEUES}job a queue=q1 min=0: 8 x cpu=1\njob b queue=q2 min=0: 8 x cpu=1", config("allocate"))
    assert sorted(effect.group for effect in plan.of(Bind)) == ["default/a"] * 4 + ["default/b"] * 4


@pytest.mark.parametrize(("allocated", "evicted"), [(8, 4), (5, 1), (4, 0)])
def test_a_queue_reclaims_its_fair_share_from_queues_above_theirs(allocated: int, evicted: int) -> None:
    text = QUEUES + f"job a queue=q2 min=0: {allocated} x cpu=1 on=n1\n"
    text += (
        f"job c queue=q1 min=0: {8 - allocated} x cpu=1 on=n1, 4 x cpu=1"
        if allocated < 8
        else "job c queue=q1 min=0: 4 x cpu=1"
    )
    assert len(decide(text, config("allocate, reclaim")).of(Evict)) == evicted


@pytest.mark.parametrize("switch", ["enablePreemptive", "enableReclaimable"])
@pytest.mark.parametrize("value", [True, False])
def test_the_switches_of_the_entry_turn_off_what_follows_from_the_shares(switch: str, value: bool) -> None:
    """Both queues have their shares: q1 may not reclaim, and q2 has no victims."""
    jobs = "job a queue=q2 min=0: 4 x cpu=1 on=n1\njob b queue=q1 min=0: 4 x cpu=1 on=n1, 1 x cpu=1"
    session = Session(snapshot(QUEUES + jobs), config("allocate, reclaim", **{switch: value}))
    victim, task = (session.cluster.task(session.snapshot.task_rows[f"default/{name}"]) for name in ("a-0", "b-4"))
    is_eligible = session.quotas.may_reclaim(session.cluster.queue(session.snapshot.queues.index["q1"]), [task])
    victims = session.hooks.victims[Purpose.RECLAIM](task, [victim])
    assert (is_eligible, len(victims)) == (
        not value and switch == "enablePreemptive",
        not value and switch == "enableReclaimable",
    )


def test_limits_do_not_apply_with_enabled_allocatable_off() -> None:
    plan = decide(f"{QUEUES}job a queue=q1 min=0: 8 x cpu=1", config("allocate", enabledAllocatable=False))
    assert len(plan.of(Bind)) == 8


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (FloatGuarantee, "guarantee of the shape (3, 3) and the type float64, which must be (3, 3) and int64"),
        (SingleColumn, "fair of the shape (3,) and the type int64, which must be (3, 3) and int64"),
    ],
)
def test_wrong_tables_are_an_error_that_names_the_plugin(policy: type[Equal], message: str) -> None:
    session = Session(snapshot(QUEUES + "job a queue=q1: 1 x cpu=1"), config("allocate"))
    with pytest.raises(PluginError) as error:
        _ = ShareRules(policy(NoArguments(), session.cluster), session.cluster).shares
    assert str(error.value) == f"plugin 'equal': shares() returned {message}"
