"""The record of evictions in the status of a pod group: no pod is reclaimed twice within the cooldown."""

from datetime import datetime, timedelta
from random import Random

import numpy as np
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.scheduling import PodGroupStatus
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.model.eviction_record import (
    COOLDOWN,
    MOST_SECONDS,
    protected_since,
    running_seconds,
    with_eviction,
)
from volcanopy.scheduler.model.plan import GroupCondition, SetPodGroup
from volcanopy.services.scheduler.state.statuses import group_status, status_patch
from volcanopy_testing.notation import NOW, snapshot, world

MINUTE = timedelta(minutes=1)


def evicted(status: core.PodGroupStatus, at: datetime) -> core.PodGroupStatus:
    return with_eviction(status, "PodsEvicted", "", 0, at)


def test_further_evictions_of_a_group_do_not_end_the_protection_of_pods_that_started_again() -> None:
    status = evicted(evicted(core.PodGroupStatus(), NOW), NOW + 20 * MINUTE)
    assert protected_since(status, NOW + 25 * MINUTE) == NOW
    assert (
        protected_since(status, NOW + 45 * MINUTE) == NOW + 15 * MINUTE
    )  # what started earlier was evicted before that
    assert protected_since(status, NOW + 50 * MINUTE) is None


def test_an_eviction_after_the_cooldown_has_a_record_of_its_own() -> None:
    status = evicted(evicted(core.PodGroupStatus(), NOW), NOW + COOLDOWN)
    assert protected_since(status, NOW + COOLDOWN + MINUTE) == NOW + COOLDOWN


def test_a_group_without_evictions_has_no_protected_pods() -> None:
    assert protected_since(core.PodGroupStatus(), NOW) is None


def test_a_record_without_its_beginning_counts_from_the_last_eviction() -> None:
    """Such a status was written by an earlier version."""
    status = core.PodGroupStatus(
        conditions=(core.Condition(type="Evicted", status="True", last_transition_time=NOW - MINUTE),)
    )
    assert protected_since(status, NOW) == NOW - MINUTE
    assert evicted(status, NOW).evicted_since == NOW - MINUTE


def test_the_record_is_written_with_the_status_of_the_pod_group_and_kept() -> None:
    before = core.PodGroupStatus(phase="Running")
    condition = GroupCondition("Evicted", "PodsEvicted", 'pods were evicted for a job in queue "a"')
    after = group_status(before, SetPodGroup("default/g", "Running", evicted=condition), "s", NOW)
    patch = status_patch(before, after)
    written = PodGroupStatus.model_validate({"evictedSince": patch["evictedSince"], "conditions": patch["conditions"]})
    assert (written.evicted_since, written.conditions[0].last_transition_time) == (NOW, NOW)
    kept = group_status(after, SetPodGroup("default/g", "Inqueue"), "s", NOW + MINUTE)
    assert protected_since(kept, NOW + 2 * MINUTE) == NOW


def test_no_pod_is_evicted_twice_within_the_cooldown_and_those_that_never_stopped_are_not_protected() -> None:
    again = 0
    for seed in range(50):
        dice, status, minute = Random(seed), core.PodGroupStatus(), 0
        started, last = dict.fromkeys(range(6), NOW), dict[int, datetime]()
        for _ in range(60):
            minute += dice.choice([1, 1, 2, 5, 15, 40])
            now = NOW + minute * MINUTE
            since = protected_since(status, now)
            unprotected = [pod for pod, at in started.items() if since is None or at < since]
            assert {pod for pod in started if pod not in last} <= set(unprotected)
            if not unprotected:
                continue
            pod = dice.choice(unprotected)
            again += pod in last
            assert now - last.get(pod, now - COOLDOWN) >= COOLDOWN
            status, last[pod], started[pod] = evicted(status, now), now, now + dice.randint(0, 3) * MINUTE
    assert again > 50


def test_the_times_of_evicted_runs_count_and_each_record_adds_a_cooldown_but_waiting_adds_nothing() -> None:
    status = with_eviction(core.PodGroupStatus(), "PodsEvicted", "", 600, NOW - 20 * MINUTE)
    assert status.evicted_seconds == 600 + 30 * 60
    nodes = "node n1 cpu=2\njob again: 1 x cpu=1 on=n1\njob other: 1 x cpu=1 on=n1"
    things = [_restarted(thing, status) for thing in world(nodes)]
    seen = snapshot("", things)
    seconds = dict(zip(map(str, seen.tasks.keys), running_seconds(seen, np.arange(2)).tolist(), strict=True))
    assert seconds["default/again-0"] == 600 + 30 * 60 + 15 * 60
    assert seconds["default/other-0"] > 23 * 3600


def test_only_the_first_of_several_evictions_within_the_cooldown_adds_to_the_time() -> None:
    first = with_eviction(core.PodGroupStatus(), "PodsEvicted", "", 60, NOW)
    second = with_eviction(first, "PodsEvicted", "", first.evicted_seconds + 120, NOW + 10 * MINUTE)
    assert second.evicted_seconds == first.evicted_seconds + 120
    later = with_eviction(second, "PodsEvicted", "", second.evicted_seconds + 120, NOW + 40 * MINUTE)
    assert later.evicted_seconds == second.evicted_seconds + 120 + 30 * 60


def _restarted(thing: Object, status: core.PodGroupStatus) -> Object:
    if isinstance(thing, core.PodGroup) and thing.metadata.name == "again":
        return replace(thing, status=status)
    if isinstance(thing, core.Pod) and thing.metadata.name == "again-0":
        return replace(thing, status=replace(thing.status, start_time=NOW - 15 * MINUTE))
    return thing


def test_the_recorded_time_is_bounded_and_kept_when_nothing_is_evicted() -> None:
    effect = SetPodGroup(
        "default/g", "Running", evicted=GroupCondition("Evicted", "PodsEvicted"), evicted_seconds=10**12
    )
    after = group_status(core.PodGroupStatus(), effect, "s", NOW)
    assert after.evicted_seconds == MOST_SECONDS
    assert group_status(after, SetPodGroup("default/g", "Inqueue"), "s", NOW).evicted_seconds == MOST_SECONDS
