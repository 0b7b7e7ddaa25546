"""pdb, cdp, resourcequota, sla: protection of pods, quotas and waiting times."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.builtin import policy
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.plan import Bind, Evict, Plan, SetPodGroup
from volcanopy.scheduler.policies.order.sla import SlaArguments
from volcanopy.scheduler.policies.victims import pdb
from volcanopy_testing.notation import NOW, config, world

HIGH = "class high value=9\n"
CROWDED = HIGH + "node n1 cpu=3\njob a min=0: 3 x cpu=1 app/name=web on=n1\njob b priority=high: 3 x cpu=1"


def decide(objects: Sequence[Object], plugins: str, actions: str) -> Plan:
    state = State()
    for obj in objects:
        state.upsert(obj)
    return schedule(state.snapshot(NOW, "test"), config(plugins, actions))


def budget(allowed: int, **labels: str) -> policy.PodDisruptionBudget:
    selector = core.LabelSelector(match_labels=labels)
    return policy.PodDisruptionBudget(
        metadata=core.Meta(name="budget", namespace="default"),
        spec=policy.PodDisruptionBudgetSpec(selector=selector),
        status=policy.PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


@pytest.mark.parametrize(("allowed", "evicted"), [(0, 0), (2, 0), (3, 3)])
def test_a_budget_limits_evictions_and_a_gang_that_needs_more_evicts_none(allowed: int, evicted: int) -> None:
    objects = [*world(CROWDED), budget(allowed, **{"app/name": "web"})]
    assert len(decide(objects, "priority, gang, pdb | predicates", "preempt").of(Evict)) == evicted


def test_a_budget_protects_only_selected_pods() -> None:
    objects = [*world(CROWDED), budget(0, **{"app/name": "other"})]
    assert len(decide(objects, "priority, gang, pdb | predicates", "preempt").of(Evict)) == 3


def test_many_budgets_are_compared_only_with_pods_that_have_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user may create thousands."""
    compared: list[object] = []
    matches = selectors.matches

    def counted(*arguments: Any) -> bool:
        compared.append(arguments)
        return matches(*arguments)

    monkeypatch.setattr(pdb, "matches", counted)
    named = [
        replace(budget(0, app=str(number)), metadata=core.Meta(name=f"b{number}", namespace="default"))
        for number in range(200)
    ]
    objects = [*world(CROWDED), *named, budget(3, **{"app/name": "web"})]
    assert len(decide(objects, "priority, gang, pdb | predicates", "preempt").of(Evict)) == 3
    assert 0 < len(compared) < 20


def test_no_budget_selects_a_pod_without_labels() -> None:
    text = HIGH + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    objects = [*world(text), budget(0, app="web")]
    assert len(decide(objects, "priority, gang, pdb | predicates", "preempt").of(Evict)) == 1


@pytest.mark.parametrize(("ago", "evicted"), [(60, 0), (3600, 1)])
def test_a_pod_is_protected_during_its_cooldown_time(ago: int, evicted: int) -> None:
    text = (
        HIGH
        + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1 note.volcanopy.io/cooldown-time=10m\njob b priority=high: 1 x cpu=1"
    )
    since = core.Condition(type="PodScheduled", status="True", last_transition_time=NOW - timedelta(seconds=ago))
    objects = [
        replace(obj, status=replace(obj.status, conditions=(since,)))
        if isinstance(obj, core.Pod) and obj.spec.node_name
        else obj
        for obj in world(text)
    ]
    assert len(decide(objects, "priority, gang, cdp | predicates", "preempt").of(Evict)) == evicted


def quota(hard: dict[str, str], used: dict[str, str], **spec: object) -> policy.ResourceQuota:
    annotation = {
        "metadata": {"name": "quota", "namespace": "default"},
        "status": {"hard": hard, "used": used},
        "spec": spec,
    }
    return msgspec.convert(annotation, policy.ResourceQuota)


@pytest.mark.parametrize(
    ("hard", "used", "phase"),
    [
        ({"cpu": "2"}, {}, "Pending"),
        ({"requests.cpu": "2"}, {}, "Pending"),
        ({"cpu": "4"}, {"cpu": "1"}, "Inqueue"),
        ({"cpu": "4"}, {"cpu": "2"}, "Pending"),
        ({"memory": "1"}, {}, "Inqueue"),
    ],
)
def test_a_job_is_admitted_within_the_quota_of_its_namespace(
    hard: dict[str, str], used: dict[str, str], phase: str
) -> None:
    objects = [*world("node n1 cpu=9\njob a min=3 phase=Pending minres.cpu=3"), quota(hard, used)]
    made = decide(objects, "gang, resourcequota", "enqueue")
    assert [effect.phase for effect in made.of(SetPodGroup)] == [phase]


def test_quota_reserved_for_an_admitted_job_is_not_available_to_the_next() -> None:
    text = "node n1 cpu=9\njob a phase=Pending min=2 minres.cpu=2\njob b phase=Pending min=2 minres.cpu=2\njob c phase=Pending min=1 minres.cpu=1"
    made = decide([*world(text), quota({"cpu": "3"}, {})], "gang, resourcequota", "enqueue")
    assert [effect.phase for effect in made.of(SetPodGroup)] == ["Inqueue", "Pending", "Inqueue"]
    assert "exceeded quota: quota, requested: cpu=2, used: cpu=2, limited: cpu=3" in str(made)


def test_quotas_with_scopes_are_ignored() -> None:
    objects = [
        *world("node n1 cpu=9\njob a phase=Pending minres.cpu=3"),
        quota({"cpu": "1"}, {}, scopes=["BestEffort"]),
    ]
    assert [effect.phase for effect in decide(objects, "gang, resourcequota", "enqueue").of(SetPodGroup)] == ["Inqueue"]


WAITING = "node n1 cpu=2\njob r: 2 x cpu=1 on=n1\njob a phase=Pending minres.cpu=2{} : 2 x cpu=1"


@pytest.mark.parametrize(("note", "phase"), [("", "Pending"), ("1h", "Inqueue"), ("48h", "Pending")])
def test_a_job_is_admitted_after_its_longest_waiting_time(note: str, phase: str) -> None:
    """The snapshot is taken a day after creation."""
    annotation = f" note.volcanopy.io/sla-waiting-time={note}" if note else ""
    made = decide(world(WAITING.format(annotation)), "gang, sla | overcommit", "enqueue")
    assert [effect.phase for effect in made.of(SetPodGroup) if effect.pod_group == "default/a"] == [phase]


def test_a_job_past_its_longest_waiting_time_reserves_its_placements() -> None:
    """Two of three cpus are free: the job past its waiting time reserves them, and the small job behind it waits."""
    text = "node n1 cpu=3\njob r: 1 x cpu=1 on=n1\njob a note.sla-waiting-time=1h: 3 x cpu=1\njob b: 1 x cpu=1"
    assert decide(world(text), "sla | gang, predicates", "allocate").of(Bind) == []
    assert decide(world(text.replace("1h", "48h")), "sla | gang, predicates", "allocate").of(Bind)


def test_an_invalid_waiting_time_is_rejected() -> None:
    with pytest.raises(ValueError, match="duration"):
        SlaArguments.model_validate({"sla-waiting-time": "soon"})
