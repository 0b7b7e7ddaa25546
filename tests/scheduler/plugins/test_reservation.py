"""reservation: reservations for large waiting jobs, and their use by other pods."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.cluster_over_time import ClusterOverTime
from tests.scheduler.plugins.scene import argument_error
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind, Explain, Plan, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy_testing import notation
from volcanopy_testing.notation import decide, snapshot

KEPT: Mapping[str, Any] = {"after": "5m"}
FULL = "node n1 cpu=4\nnode n2 cpu=4\nclass high value=9\nclass low value=1"


def configured(arguments: Mapping[str, Any] | None = KEPT, actions: str = "enqueue, allocate") -> SchedulerConfig:
    """Priority, gang and predicates, with the plugin if it has arguments."""
    first: list[dict[str, Any]] = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]
    if arguments is not None:
        first.append({"name": "reservation", "arguments": dict(arguments)})
    second = [{"name": "overcommit"}, {"name": "predicates"}, {"name": "binpack"}]
    document = {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}
    return parse(msgspec.json.encode(document).decode(), builtin())


def stream(time: ClusterOverTime, minutes: int = 6, words: str = "", waiting: int = 6) -> Callable[[], None]:
    """Keep some jobs of one cpu waiting, each of which runs some minutes."""
    count = 0

    def keep_coming() -> None:
        nonlocal count
        pending = sum(not pod.spec.node_name and "small" in pod.metadata.name for pod in time.pods.values())
        for _ in range(max(waiting - pending, 0)):
            time.come(f"job small{count:03}{words}: 1 x cpu=1", minutes + count % 3)
            count += 1

    return keep_coming


@pytest.mark.parametrize("actions", ["allocate", "allocate, reclaim"])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_reservations_behind_a_job_do_not_keep_it_from_its_own(heads: int, actions: str) -> None:
    """Both are larger than the fair share of their queue: the first has nodes reserved, the second the rest of the share."""
    reservation = {"name": "reservation", "arguments": {"after": "0s", "heads": heads}}
    tiers: list[list[Any]] = [["priority", "gang", reservation], ["predicates", "proportion"]]
    plugins = [{"plugins": [{"name": entry} if isinstance(entry, str) else entry for entry in tier]} for tier in tiers]
    config = parse(msgspec.json.encode({"actions": actions, "tiers": plugins}).decode(), builtin())
    world = "node n1 cpu=8\nnode n2 cpu=8\nqueue a\nqueue b\njob other queue=b: 1 x cpu=9"
    large = "".join(f"\njob large{number} queue=a: 2 x cpu=8" for number in (1, 2))
    assert bound(decide(world + large, config)) == {"large1-0": "n1", "large1-1": "n2"}


NEVER = {"after": "never"}


@pytest.mark.parametrize(("arguments", "starts"), [(NEVER, False), ({}, True), (KEPT, True)])
def test_a_reservation_prevents_starvation_of_a_large_gang(arguments: Mapping[str, Any] | None, starts: bool) -> None:
    time = ClusterOverTime(FULL, configured(arguments))
    small = stream(time)
    for _ in range(8):
        small()
        time.cycle()
    time.come("job big priority=high: 2 x cpu=4")
    assert (time.until("big-0", 60, small) is not None) == starts


LONG = """
node n1 cpu=4
node n2 cpu=4
class high value=9
class low value=1
job long: 1 x cpu=4 on=n1
"""
"""The end of the long job is not known."""


@pytest.mark.parametrize(
    ("minutes", "arguments", "starts"),
    [
        (40, KEPT, False),
        (70, KEPT, True),
        (70, {**KEPT, "assumedRuntime": "2h"}, False),
        (70, {**KEPT, "basis": "walltime"}, False),
    ],
)
def test_pods_use_the_reservation_while_a_pod_blocks_it_that_has_run_longer_than_they_are_assumed_to(
    minutes: int, arguments: Mapping[str, Any], starts: bool
) -> None:
    time = ClusterOverTime(LONG, configured(arguments))
    time.minute = minutes
    time.come("job big priority=high: 2 x cpu=4")
    time.minute += 10
    time.come("job small phase=Pending minres.cpu=1: 1 x cpu=1")
    time.cycle()
    time.cycle()
    assert bool(time.runs_on("small-0")) == starts


def test_a_gang_starts_within_three_times_the_longest_run_time_though_others_use_its_reservation() -> None:
    time = ClusterOverTime(LONG, configured())
    time.minute = come = 70
    time.runs["default/long-0"] = longest = 100
    small = stream(time, longest - 12)
    time.come("job big priority=high: 2 x cpu=4")
    start = time.until("big-0", 400, small)
    assert start is not None
    assert any(come + 10 < minute < start for minute in time.started.values()), "others use the reservation"
    assert start <= come + 5 + 3 * longest


LIMITED = "note.volcanopy.io/max-runtime"
HALF = f"""
node n1 cpu=4
node n2 cpu=4
class high value=9
class low value=1
job run: 1 x cpu=4 on=n1 {LIMITED}=30m
job big priority=high: 2 x cpu=4
"""
"""Node n2 is free, n1 will be in half an hour: then the big job fits."""


def bound(plan: Plan) -> dict[str, str]:
    return {effect.pod.removeprefix("default/"): effect.node for effect in plan.of(Bind)}


def explanation(plan: Plan, job: str) -> Explain:
    effects: list[Explain] = [effect for effect in plan.of(Explain) if effect.job == f"default/{job}"]
    return effects[0]


def test_a_pod_that_ends_in_time_uses_the_reservation() -> None:
    plan = decide(f"{HALF}job small: 1 x cpu=2 {LIMITED}=29m", configured())
    assert bound(plan) == {"small-0": "n2"}


def test_a_pod_that_may_end_later_does_not_use_the_reservation() -> None:
    plan = decide(f"{HALF}job small: 1 x cpu=2 {LIMITED}=31m\njob other: 1 x cpu=2", configured())
    assert bound(plan) == {}
    assert explanation(plan, "small").message == (
        '0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had resources reserved for job "big"'
    )
    assert explanation(plan, "small").blocked_by == ("job default/big",)


def test_without_reservations_a_small_job_is_placed() -> None:
    assert bound(decide(f"{HALF}job small: 1 x cpu=2", configured(NEVER))) == {"small-0": "n2"}


def test_a_deadline_counts_like_the_annotation() -> None:
    text = f"{HALF}job small: 1 x cpu=2"
    time = ClusterOverTime(text, configured({"after": "0s"}))
    pod = time.pods["default/small-0"]
    spec = msgspec.structs.replace(pod.spec, active_deadline_seconds=29 * 60)
    time.pods["default/small-0"] = msgspec.structs.replace(pod, spec=spec)
    time.cycle()
    assert time.runs_on("small-0") == "n2"


def test_a_waiting_job_reports_its_reservation_and_latest_start() -> None:
    numbers = explanation(decide(HALF, configured()), "big").numbers
    assert (numbers["reserved"], numbers["expected"]) == ("n1, n2", "2030-01-02T00:30:00Z")
    guessed = explanation(decide(HALF.replace(f" {LIMITED}=30m", ""), configured()), "big").numbers
    assert guessed["reserved"] == "n1, n2"
    assert "expected" not in guessed


def test_resources_above_the_reservation_are_free() -> None:
    plan = decide(f"{HALF}node n3 cpu=3\njob long min=1: 3 x cpu=2", configured())
    assert bound(plan) == {"long-0": "n3"}
    plan = decide(HALF.replace("n2 cpu=4", "n2 cpu=5") + "job long min=1: 3 x cpu=1", configured())
    assert bound(plan) == {"long-0": "n2"}


def test_the_first_waiting_job_reserves_the_first_free_nodes() -> None:
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    job a: 1 x cpu=4 on=n1 {LIMITED}=60m
    job b: 1 x cpu=4 on=n2 {LIMITED}=20m
    job c: 1 x cpu=4 on=n3 {LIMITED}=40m
    job big: 2 x cpu=4
    """
    numbers = explanation(decide(world, configured()), "big").numbers
    assert (numbers["reserved"], numbers["expected"]) == ("n2, n3", "2030-01-02T00:40:00Z")


def test_preemptable_pods_use_the_reservation_if_preempt_is_configured() -> None:
    world = f"{HALF}job small priority=low: 1 x cpu=2"
    assert bound(decide(world, configured(), "enqueue, allocate")) == {}
    text = HALF.replace("job run:", "job run priority=high:")
    time = ClusterOverTime(text, configured(actions="enqueue, allocate, preempt"))
    time.runs["default/run-0"] = 30
    for _ in range(6):
        time.cycle()
    time.come("class low value=1\njob small priority=low: 1 x cpu=2")
    time.cycle()
    assert time.runs_on("small-0") == "n2"
    assert time.until("big-0", 40) == 31, "it made small leave when n1 was free, in the minute after"


def test_only_old_jobs_of_the_named_queues_have_reservations() -> None:
    time = ClusterOverTime(HALF, configured({"after": "5m"}))
    time.come("job small: 1 x cpu=2")
    time.cycle()
    assert time.runs_on("small-0") == "n2"
    world = f"{HALF}queue other\njob small: 1 x cpu=2"
    assert bound(decide(world, configured({"queues": ["other"]}))) == {"small-0": "n2"}
    assert bound(decide(world, configured({"queues": "other, default"}))) == {}


def test_a_reservation_ends_with_its_job() -> None:
    time = ClusterOverTime(HALF, configured({"after": "0s"}))
    time.come("job small: 1 x cpu=2")
    time.cycle()
    assert time.runs_on("small-0") == ""
    time.pods = {key: pod for key, pod in time.pods.items() if "big" not in key}
    time.cycle()
    assert time.runs_on("small-0") == "n2"


def test_the_arguments_limit_the_reservations_of_a_queue() -> None:
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=2
    job run: 1 x cpu=4 on=n1 {LIMITED}=30m
    job wide: 2 x cpu=4
    job next: 2 x cpu=2
    job late: 1 x cpu=2
    """
    assert bound(decide(world, configured())) == {"late-0": "n3"}
    assert bound(decide(world, configured({"heads": 2, "after": "1m"}))) == {}


@pytest.mark.parametrize("starting", [0, 1, 3])
def test_jobs_that_start_do_not_use_up_the_reservation_of_the_job_behind_them(starting: int) -> None:
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=3
    job run: 1 x cpu=4 on=n1 {LIMITED}=30m
    {"".join(f"job first{number}: 1 x cpu=1{chr(10)}    " for number in range(starting))}job wide: 2 x cpu=4
    job late: 1 x cpu=4
    job short: 1 x cpu=4 {LIMITED}=29m
    """
    expected = {f"first{number}-0": "n3" for number in range(starting)}
    assert bound(decide(world, configured())) == {**expected, "short-0": "n2"}


def test_a_new_job_that_starts_does_not_use_up_the_reservation_of_one_that_has_waited() -> None:
    time = ClusterOverTime(f"{FULL}\nnode n3 cpu=1\njob run: 1 x cpu=4 on=n1\njob big: 2 x cpu=4", configured())
    for _ in range(6):
        time.cycle()
    time.come("job urgent priority=high: 1 x cpu=1\njob late: 1 x cpu=4")
    time.cycle()
    assert (time.runs_on("urgent-0"), time.runs_on("late-0")) == ("n3", "")


def with_anti_affinity(text: str) -> Plan:
    """Return the plan for a world in which no two pods of the job ``apart`` may run on one node."""
    own = core.LabelSelector(match_labels={"app": "apart"})
    term = core.PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=own)
    affinity = core.Affinity(pod_anti_affinity=core.PodAffinity(required=(term,)))
    state = State()
    for made in notation.world(text):
        if isinstance(made, core.Pod) and made.metadata.name.startswith("apart-"):
            labelled = msgspec.structs.replace(made.metadata, labels={"app": "apart"})
            spec = msgspec.structs.replace(made.spec, affinity=affinity)
            state.upsert(msgspec.structs.replace(made, spec=spec, metadata=labelled))
        else:
            state.upsert(made)
    return schedule(state.snapshot(notation.NOW), configured())


PORTS = "1 x cpu=1 port=80\njob serve: 1 x cpu=1 port=80 on=n1\njob serves: 1 x cpu=1 port=80 on=n2"


@pytest.mark.parametrize("gang", ["3 x cpu=1 port=80", "3 x cpu=1", PORTS], ids=["ports", "anti-affinity", "others"])
def test_a_gang_that_pods_keep_out_reserves_nothing_while_enough_is_free(gang: str) -> None:
    """Three pods of which a node takes one never run on two nodes, nor does one whose port is in use on both."""
    plan = with_anti_affinity(f"node n1 cpu=5\nnode n2 cpu=5\njob apart: {gang}\njob wide: 2 x cpu=4")
    assert bound(plan) == {"wide-0": "n1", "wide-1": "n2"}


def test_a_gang_whose_pods_share_a_claim_of_one_pod_reserves_nothing_while_enough_is_free() -> None:
    volume = "pv v1\npvc data volume=v1 mode=ReadWriteOncePod"
    world = f"node n1 cpu=5\nnode n2 cpu=5\n{volume}\njob apart: 2 x cpu=4 pvc=data\njob wide: 2 x cpu=4"
    assert bound(decide(world, configured())) == {"wide-0": "n1", "wide-1": "n2"}


@pytest.mark.parametrize("gang", ["2 x cpu=4 port=80", "2 x cpu=4"], ids=["ports", "anti-affinity"])
def test_a_gang_whose_pods_exclude_each_other_has_a_reservation_while_too_little_is_free(gang: str) -> None:
    plan = with_anti_affinity(f"{FULL}\njob run: 1 x cpu=4 on=n1\njob apart: {gang}\njob late: 1 x cpu=4")
    assert bound(plan) == {}


def test_a_gang_with_host_ports_that_can_preempt_has_a_reservation() -> None:
    world = f"{FULL}\njob run min=1 priority=low: 2 x cpu=4 on=n1,n2\njob apart priority=high: 2 x cpu=4 port=80"
    session = Session(snapshot(world), configured(actions="enqueue, allocate, preempt"))
    (gang,) = (job for job in session.cluster.jobs() if job.key == "default/apart")
    assert session.reservations is not None
    assert session.reservations.details(gang) == {"reserved": "n1, n2"}


def test_a_job_that_never_fits_has_no_reservation() -> None:
    world = "node n1 cpu=4\njob huge: 1 x cpu=5\njob run: 1 x cpu=1 on=n1\njob small: 1 x cpu=1"
    assert bound(decide(world, configured())) == {"small-0": "n1"}


def test_jobs_of_higher_priority_use_the_reservation() -> None:
    world = HALF.replace("job big priority=high", "job big") + "job urgent priority=high: 1 x cpu=2"
    time = ClusterOverTime(world, configured())
    time.minute = 1
    assert bound(decide(world, configured({"after": "0s", "heads": 1}))) == {"urgent-0": "n2"}


def test_a_job_with_a_reservation_is_admitted_to_a_full_cluster() -> None:
    world = "node n1 cpu=4\njob run: 4 x cpu=1 on=n1\njob big phase=Pending minres.cpu=4: 1 x cpu=4"
    assert "podgroup big Pending" in str(decide(world, configured(NEVER)))
    assert "podgroup big Inqueue" in str(decide(world, configured()))


def test_jobs_that_were_admitted_before_an_older_one_do_not_keep_it_out() -> None:
    run = "node n1 cpu=4\njob run: 3 x cpu=1 on=n1\n"
    big, small = "job big phase=Pending minres.cpu=4: 4 x cpu=1\n", "job small phase=Inqueue: 2 x cpu=1\n"
    assert "podgroup big Inqueue" in str(decide(run + big + small, configured()))
    assert "podgroup big Inqueue" not in str(decide(run + small + big, configured()))


@pytest.mark.parametrize(
    ("arguments", "minutes", "admitted"),
    [
        ({"admitRunnable": False}, 90, []),
        ({}, 90, ["a", "c"]),
        ({}, 30, ["c", "d"]),  # a is assumed to run for an hour
        ({}, 3, []),
        ({"after": "never"}, 3, ["a", "c"]),
    ],
)
def test_jobs_that_fit_into_idle_resources_that_are_not_reserved_or_lent_to_them_are_admitted(
    arguments: Mapping[str, Any], minutes: int, admitted: list[str]
) -> None:
    world = f"""
    node n1 cpu=8
    job run note.{names.WALLTIME}={minutes}m: 5 x cpu=1 on=n1
    job big phase=Inqueue minres.cpu=8: 8 x cpu=1
    job next phase=Inqueue minres.cpu=4: 4 x cpu=1
    job a phase=Pending minres.cpu=1
    job b phase=Pending minres.cpu=4
    job c phase=Pending minres.cpu=2 note.{names.RUNNING_ESTIMATE}=5m
    job d phase=Pending minres.cpu=1 note.{names.WALLTIME}=5m
    """
    plan = decide(world, configured({"after": "2h", **arguments}))
    phases = {each.pod_group.removeprefix("default/"): each.phase for each in plan.of(SetPodGroup)}
    assert [job for job in "abcd" if phases.get(job) == "Inqueue"] == admitted


@pytest.mark.parametrize(("after", "admitted"), [("never", []), ("5m", ["a"])])
def test_a_job_that_waits_for_its_reservation_keeps_no_other_out(after: str, admitted: list[str]) -> None:
    """Overcommit admits 9.6 cpus beside it: 5 that run, 4 of a, and nothing for b."""
    world = """
    node n1 cpu=8
    job run: 5 x cpu=1 on=n1
    job big phase=Inqueue minres.cpu=8: 8 x cpu=1
    job a phase=Pending minres.cpu=4
    job b phase=Pending minres.cpu=1
    """
    plan = decide(world, configured({"after": after, "admitRunnable": False}))
    assert [job for job in "ab" if job not in explained(plan)] == admitted


def test_jobs_behind_the_rest_of_a_share_keep_no_other_queue_out() -> None:
    """The share of either queue is 4 cpus. Nothing of a can start before big, but its jobs would fill overcommit."""
    world = """
    node n1 cpu=8
    queue a
    queue b
    job run queue=a: 3 x cpu=1 on=n1
    job other queue=b: 2 x cpu=1 on=n1
    job next queue=b phase=Inqueue minres.cpu=2: 1 x cpu=2
    job big queue=a phase=Inqueue minres.cpu=2: 1 x cpu=2
    job behind queue=a phase=Inqueue minres.cpu=4: 4 x cpu=1
    job a phase=Pending queue=a minres.cpu=1
    job b phase=Pending queue=b minres.cpu=1
    """
    plan = decide(world, replace(default(builtin()), actions=("enqueue", "allocate", "reclaim")))
    assert explained(plan) == ["a"]


def test_what_admitted_jobs_will_use_is_not_idle_for_others() -> None:
    """The pods of small exist, and no cycle has tried to place them. Those of large do not fit."""
    text = """
    node n1 cpu=8
    job run: 1 x cpu=1 on=n1
    job large phase=Inqueue minres.cpu=8: 8 x cpu=1
    job small phase=Inqueue minres.cpu=4: 4 x cpu=1
    """
    config = configured({"after": "never"})
    assert explained(decide(f"{text}job a phase=Pending minres.cpu=3", config)) == []
    assert explained(decide(f"{text}job a phase=Pending minres.cpu=4", config)) == ["a"]


def test_pods_that_run_count_once_for_overcommit() -> None:
    """It admits 4.8 cpus: 2 that run, 2 that their gang lacks, and 0.5 of a."""
    text = """
    node n1 cpu=4
    job gang phase=Inqueue min=4 minres.cpu=4: 2 x cpu=1 on=n1, 2 x cpu=1
    job a phase=Pending minres.cpu=500m
    """
    assert explained(decide(text, configured(None))) == []
    assert explained(decide(text.replace("500m", "1"), configured(None))) == ["a"]


def explained(plan: Plan) -> list[str]:
    """Return the jobs that are not admitted."""
    return [each.job.removeprefix("default/") for each in plan.of(Explain) if each.gate == "overcommit"]


def test_the_rest_of_a_queue_limit_is_reserved() -> None:
    tiers = [
        {"name": "priority"},
        {"name": "gang"},
        {"name": "reservation"},
        {"name": "capacity"},
        {"name": "predicates"},
    ]
    document = {"actions": "enqueue, allocate", "tiers": [{"plugins": tiers}]}
    config = parse(msgspec.json.encode(document).decode(), builtin())
    world = f"""
    node n1 cpu=8
    queue q capability.cpu=4
    job run queue=q: 2 x cpu=1 on=n1 {LIMITED}=30m
    job big queue=q: 4 x cpu=1
    """
    plan = decide(f"{world}job small queue=q: 1 x cpu=1", config)
    assert bound(plan) == {}
    assert (explanation(plan, "small").gate, explanation(plan, "small").message) == (
        "capability",
        'the rest of queue "q" is reserved for job "big"',
    )
    assert explanation(plan, "small").blocked_by == ("job default/big",)
    assert bound(decide(f"{world}job small queue=q: 1 x cpu=1 {LIMITED}=9m", config)) == {"small-0": "n1"}
    assert bound(decide(f"{world}job small: 1 x cpu=1", config)) == {"small-0": "n1"}, "another queue"
    never = world.replace("4 x cpu=1", "5 x cpu=1")
    assert bound(decide(f"{never}job small queue=q: 1 x cpu=1", config)) == {"small-0": "n1"}


@pytest.mark.parametrize(
    ("actions", "cpus", "held", "starts"),
    [
        ("enqueue, allocate", 2, 3, True),
        ("enqueue, allocate, reclaim", 2, 3, False),
        ("enqueue, allocate, reclaim", 1, 3, True),
        ("enqueue, allocate, reclaim", 5, 1, True),
    ],
)
def test_a_reservation_exceeds_a_share_only_if_others_cannot_reclaim_it_or_the_job_is_larger_than_the_share(
    actions: str, cpus: int, held: int, starts: bool
) -> None:
    """The share of either queue is 4 cpus. With reclaim b gets back soon what its job of 4 cpus needs."""
    world = f"""
        node n1 cpu=8
        queue a
        queue b
        job own queue=a: {held} x cpu=1 on=n1
        job other queue=b: {held} x cpu=1 on=n1
        job big queue=a: 1 x cpu={cpus}
        job next queue=a: 4 x cpu=1
        job waiting queue=b: 1 x cpu=4
        """
    plan = decide(world, replace(default(builtin()), actions=tuple(actions.split(", "))))
    assert ("big-0" in bound(plan)) == starts


@pytest.mark.parametrize(("cpus", "minutes", "starts"), [(2, 29, True), (2, 31, False), (6, 29, True), (6, 31, False)])
def test_the_rest_of_a_share_is_lent_until_the_job_can_start(cpus: int, minutes: int, starts: bool) -> None:
    """The share of either queue is 4 cpus, or the job is larger than that."""
    world = f"""
        node n1 cpu=8
        queue a
        queue b
        job own queue=a: 3 x cpu=1 on=n1 {LIMITED}=30m
        job other queue=b: 3 x cpu=1 on=n1
        job big queue=a: 1 x cpu={cpus}
        job next queue=a: 1 x cpu=1 {LIMITED}={minutes}m
        job waiting queue=b: 1 x cpu=4
        """
    plan = decide(world, replace(default(builtin()), actions=("enqueue", "allocate", "reclaim")))
    assert bound(plan) == ({"next-0": "n1"} if starts else {})


def test_a_reservation_covers_different_roles() -> None:
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    job run: 1 x cpu=4 on=n1 {LIMITED}=30m
    job big: 1 x cpu=3 role=ps min=1, 2 x cpu=2 role=worker min=2
    job fits: 1 x cpu=1
    job small: 1 x cpu=1
    """
    assert len(bound(decide(world, configured()))) == 1, "one cpu is left over"


@pytest.mark.parametrize(
    ("ending", "declared", "lent"), [(3, "31m", 2), (2, "31m", 1), (1, "31m", 0), (3, "24h", 2), (3, "", 0)]
)
def test_what_is_free_now_is_lent_to_pods_with_a_declared_time_if_others_release_enough(
    ending: int, declared: str, lent: int
) -> None:
    """All pods that end at the time of the start count, though it needs fewer with the free nodes."""
    running = ",".join(f"n{number}" for number in range(1, ending + 1))
    rest = ",".join(f"n{number}" for number in range(ending + 1, 4))
    limit = f" {LIMITED}={declared}" if declared else ""
    world = f"""
    {chr(10).join(f"node n{number} cpu=1" for number in range(1, 6))}
    job run: {ending} x cpu=1 on={running} {LIMITED}=30m
    {f"job stays: {3 - ending} x cpu=1 on={rest}" if rest else ""}
    job big: 3 x cpu=1
    job long-a: 1 x cpu=1{limit}
    job long-b: 1 x cpu=1{limit}
    """
    assert len(bound(decide(world, configured()))) == lent


def test_pods_without_requests_are_not_excluded() -> None:
    made = decide(f"{HALF}job idle: 1 x cpu=0", configured(actions="enqueue, allocate, backfill"))
    assert bound(made) == {"idle-0": "n1"}


def test_without_reservations_answers_depend_on_the_shape_only() -> None:
    seen = snapshot("node n1 cpu=4\njob a: 2 x cpu=1")
    never, later = (Session(seen, configured(arguments)) for arguments in (NEVER, {"after": "23h"}))
    assert never.hooks.cache_key(never.cluster.task(0)) == 0
    assert later.hooks.cache_key(later.cluster.task(0)) == (0, ())


def test_tasks_of_a_job_are_compared_by_what_is_lent_to_them_only_where_their_limits_differ() -> None:
    text = f"node n1 cpu=4\njob runs: 1 x cpu=3 on=n1 {LIMITED}=1h\njob large: 1 x cpu=4\njob a: 4 x cpu=1"
    limits, state = {"a-1": "2h", "a-2": "1s"}, State()
    for item in notation.world(text):
        state.upsert(item)
        if isinstance(item, core.Pod) and item.metadata.name in limits:
            notes = item.metadata.annotations | {names.MAX_RUNTIME: limits[item.metadata.name]}
            metadata = msgspec.structs.replace(item.metadata, annotations=notes)
            state.upsert(msgspec.structs.replace(item, metadata=metadata))
    session = Session(state.snapshot(notation.NOW), configured({"after": "0s"}))
    rows = np.array([session.snapshot.task_row(f"default/a-{number}") for number in range(4)])
    keys = [session.hooks.cache_key(session.cluster.task(row)) for row in rows.tolist()]
    assert session.hooks.differ(rows).tolist() == [keys[at] != keys[at + 1] for at in range(3)] == [True, True, False]
    (value,) = session.hooks._values
    with mock.patch.object(value, "read", side_effect=AssertionError):
        assert session.hooks.differ(rows[[0, 3]]).tolist() == [False]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"after": "soon"}, "must be a duration such as 10m or 1h30m"),
        ({"heads": 0}, "greater than or equal to 1"),
        ({"queue": "q"}, "queues"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: Mapping[str, Any], sentence: str) -> None:
    assert sentence in argument_error("reservation", arguments)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("", "10m", "30m", "2h"))), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("", "5m", "20m", "3h"))), max_size=5),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
def test_backfilled_pods_do_not_delay_the_job(
    running: list[tuple[int, str]], coming: list[tuple[int, str]], gang: tuple[int, int]
) -> None:
    """The latest start of a job is not delayed by backfilled pods that run as declared, or else not longer than assumed."""

    def words(runtime: str) -> str:
        return f" {LIMITED}={runtime}" if runtime else ""

    lines = [f"node n{number} cpu=4" for number in range(1, 4)]
    free = dict.fromkeys(range(1, 4), 4)
    for number, (cpu, runtime) in enumerate(running):
        node = number % 3 + 1
        if free[node] >= cpu:
            free[node] -= cpu
            lines.append(f"job r{number}: 1 x cpu={cpu} on=n{node}{words(runtime)}")
    lines.append(f"job big: {gang[0]} x cpu={gang[1]}")
    lines += [f"job c{number}: 1 x cpu={cpu}{words(runtime)}" for number, (cpu, runtime) in enumerate(coming)]
    first = decide("\n".join(lines), configured())
    if "big-0" in bound(first):
        return
    expected = explanation(first, "big").numbers.get("expected")
    places = bound(first)
    after = [
        f"{line}{'' if LIMITED in line else words('1h')} on={places[pod]}"
        if (pod := line.split(":")[0].removeprefix("job ") + "-0") in places
        else line
        for line in lines
    ]
    if expected is not None:
        assert explanation(decide("\n".join(after), configured()), "big").numbers["expected"] == expected


def test_the_walltime_of_a_job_counts_like_the_limits_of_its_pods() -> None:
    walltime = f"note.{names.WALLTIME}"
    assert bound(decide(f"{HALF}job small {walltime}=29m: 1 x cpu=2", configured())) == {"small-0": "n2"}
    assert bound(decide(f"{HALF}job small {walltime}=31m: 1 x cpu=2", configured())) == {}
    assert bound(decide(f"{HALF}job small {walltime}=29m: 1 x cpu=2 {LIMITED}=31m", configured())) == {"small-0": "n2"}
    running = HALF.replace(f"job run: 1 x cpu=4 on=n1 {LIMITED}=30m", f"job run {walltime}=30m: 1 x cpu=4 on=n1")
    assert running != HALF
    assert explanation(decide(running, configured()), "big").numbers["expected"] == "2030-01-02T00:30:00Z"


def test_nodes_are_reserved_for_the_minimum_of_a_job_that_needs_fewer_pods_than_its_roles_together() -> None:
    """Volcano's rule: the minima of roles do not bind then."""
    running = "job long: 1 x cpu=4 on=n1"
    waiting = "job big priority=high min=1: 3 x role=r min=3 cpu=3"
    plan = decide(f"{FULL}\n{running}\njob other: 1 x cpu=2 on=n2\n{waiting}", configured({"after": "0s"}))
    assert plan.of(Explain)[0].numbers["reserved"] == "n1"
