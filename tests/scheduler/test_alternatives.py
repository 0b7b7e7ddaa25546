"""The alternative with which a job is expected to finish first is selected when the job is admitted."""

import pytest

from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Explain, Plan, SetPodGroup
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.notation import config, decide, plan, snapshot

RULES = "priority, gang | overcommit, resourcequota, predicates, proportion"
NODES = """
    node cpu-1 cpu=16
    node gpu-1 cpu=16 gpu=1
"""
BUSY = NODES + "job other: 1 x cpu=1 gpu=1 on=gpu-1 note.volcanopy.io/max-runtime=5m\n"


def choice(name: str, cpu_time: str, gpu_time: str = "10m", **fields: str) -> str:
    """A waiting job that runs on a GPU or on 8 cpus."""
    more = " ".join(f"{key}={value}" for key, value in fields.items())
    gpu, cpu = (f",time={time}" if time else "" for time in (gpu_time, cpu_time))
    return f"job {name} min=1 phase=Pending {more} alternative.gpu=cpu=1,gpu=1{gpu} alternative.cpu=cpu=8{cpu}\n"


def selected(made: Plan) -> dict[str, str]:
    """The alternatives of the admitted jobs."""
    groups = made.of(SetPodGroup)
    return {group.pod_group.partition("/")[2]: group.alternative.name for group in groups if group.alternative}


def waiting(made: Plan) -> dict[str, Explain]:
    """The explanations of waiting jobs."""
    return {explain.job.partition("/")[2]: explain for explain in made.of(Explain)}


def test_the_earliest_finish_is_selected() -> None:
    assert selected(decide(NODES + choice("a", "1h"), RULES)) == {"a": "gpu"}
    assert selected(decide(NODES + choice("a", "5m"), RULES)) == {"a": "cpu"}
    assert selected(decide(BUSY + choice("a", "12m"), RULES)) == {"a": "cpu"}


def test_a_job_waits_if_it_finishes_earlier_so() -> None:
    made = decide(BUSY + choice("a", "30m"), RULES)
    assert not selected(made)
    explain = waiting(made)["a"]
    assert explain.message.startswith('alternative "gpu": ')
    assert explain.numbers["alternative"] == "gpu"
    assert explain.numbers["alternative.gpu"] == "starts 2030-01-02T00:05:00Z, finishes 2030-01-02T00:15:00Z"
    assert explain.numbers["alternative.cpu"] == "starts 2030-01-02T00:00:00Z, finishes 2030-01-02T00:30:00Z"


def test_the_jobs_before_it_count() -> None:
    made = decide(BUSY + "".join(choice(name, "40m") for name in "abcd"), RULES)
    # The GPU is free after 5, 15, 25 and 35 minutes: the fourth job would finish after 45 minutes.
    assert sorted(waiting(made)) == ["a", "b", "c"]
    assert selected(made) == {"d": "cpu"}


def test_admitted_jobs_that_wait_for_their_pods_count() -> None:
    ahead = "job ahead min=1 minres.cpu=1 minres.gpu=1 note.volcanopy.io/running-estimate=1h: 1 x cpu=1 gpu=1\n"
    assert selected(decide(NODES + ahead + choice("a", "30m"), RULES)) == {"a": "cpu"}


def test_of_equal_finishes_the_first_counts() -> None:
    assert selected(decide(NODES + choice("a", "10m"), RULES)) == {"a": "gpu"}
    assert selected(decide(NODES + choice("a", "", ""), RULES)) == {"a": "gpu"}


def test_without_run_times_the_earliest_start_counts() -> None:
    assert selected(decide(BUSY + choice("a", "", ""), RULES)) == {"a": "cpu"}


def test_the_plan_names_the_alternative_and_is_valid() -> None:
    text = NODES + choice("a", "5m")
    assert 'podgroup a Inqueue with alternative "cpu"' in plan(text, RULES).lines
    made = decide(text, RULES)
    assert not violations(snapshot(text), made, enforced_invariants(config(RULES)))
    (group,) = [each for each in made.of(SetPodGroup) if each.alternative]
    assert group.alternative.message.endswith("cpu starts 2030-01-02T00:00:00Z, finishes 2030-01-02T00:05:00Z")


def test_an_alternative_without_nodes_is_not_selected() -> None:
    taken = "node cpu-1 cpu=16\n" + choice("a", "2h")
    assert selected(decide(taken, RULES)) == {"a": "cpu"}
    tainted = "node cpu-1 cpu=16\nnode gpu-1 cpu=16 gpu=1 taint=gpu:NoSchedule\n"
    assert selected(decide(tainted + choice("a", "2h"), RULES)) == {"a": "cpu"}
    tolerated = (
        "job a min=1 phase=Pending alternative.gpu=cpu=1,gpu=1,time=10m,tolerates=gpu alternative.cpu=cpu=8,time=2h"
    )
    assert selected(decide(tainted + tolerated, RULES)) == {"a": "gpu"}
    elsewhere = (
        "job a min=1 phase=Pending alternative.gpu=cpu=1,gpu=1,time=1m,select.zone=b alternative.cpu=cpu=8,time=2h"
    )
    assert selected(decide(NODES + elsewhere, RULES)) == {"a": "cpu"}


def test_a_gang_counts_with_all_its_pods() -> None:
    gang = "job a min=2 phase=Pending alternative.gpu=cpu=1,gpu=1,time=1m alternative.cpu=cpu=8,time=2h"
    assert selected(decide(NODES + gang, RULES)) == {"a": "cpu"}


def test_a_quota_excludes_an_alternative() -> None:
    quota = "quota team hard.nvidia.com/gpu=1 used.nvidia.com/gpu=1\n"
    assert selected(decide(NODES + quota + choice("a", "2h"), RULES)) == {"a": "cpu"}
    both = "quota team hard.nvidia.com/gpu=1 used.nvidia.com/gpu=1 hard.cpu=1 used.cpu=1\n"
    assert waiting(decide(NODES + both + choice("a", "2h"), RULES))["a"].gate == "quota"


@pytest.mark.parametrize(("cpu_time", "expected"), [("1h", {}), ("10m", {"a": "cpu"})])
def test_a_limit_of_the_queue_counts_with_the_ends_of_its_jobs(cpu_time: str, expected: dict[str, str]) -> None:
    queue = "queue q capability.gpu=1\nnode gpu-2 cpu=16 gpu=1\n"
    other = "job other phase=Running queue=q minres.cpu=1 minres.gpu=1: 1 x cpu=1 gpu=1 on=gpu-1 note.volcanopy.io/max-runtime=20m\n"
    made = decide(NODES + queue + other + choice("a", cpu_time, queue="q"), RULES)
    assert selected(made) == expected
    assert selected(decide(NODES + queue + other + choice("a", cpu_time), RULES)) == {"a": "gpu"}


def test_a_limit_of_the_user_excludes_an_alternative() -> None:
    queue = "queue q limit.user.ana.nvidia.com/gpu=0\n"
    assert selected(decide(NODES + queue + choice("a", "2h", queue="q", user="ana"), RULES)) == {"a": "cpu"}


def test_without_the_action_enqueue_an_alternative_is_selected_too() -> None:
    assert selected(decide(BUSY + choice("a", "12m"), RULES, actions="allocate")) == {"a": "cpu"}
    assert selected(decide(BUSY + choice("a", "2h"), RULES, actions="allocate")) == {"a": "gpu"}


def test_what_is_selected_stays() -> None:
    text = NODES + choice("a", "5m")
    first = snapshot(text)
    (group,) = [each for each in decide(text, RULES).of(SetPodGroup) if each.alternative]
    wrong = Plan((SetPodGroup(group.pod_group, "Inqueue"),), first.version, first.session)
    assert any("without one of its alternatives" in text for text in violations(first, wrong))
