"""Limits of jobs, users and groups in queues: one rule per test."""

import pytest

from volcanopy.scheduler.model.plan import Bind, Evict, Explain, SetPodGroup
from volcanopy_testing.notation import decide, plan

RULES = "gang, predicates"


def admitted(text: str, plugins: str = RULES, actions: str = "enqueue, allocate, backfill") -> list[str]:
    effects = [effect for effect in decide(text, plugins, actions).of(SetPodGroup) if effect.phase == "Inqueue"]
    return sorted(effect.pod_group.removeprefix("default/") for effect in effects)


def bound(text: str, plugins: str = RULES, actions: str = "enqueue, allocate, backfill") -> list[str]:
    return sorted(effect.pod.removeprefix("default/") for effect in decide(text, plugins, actions).of(Bind))


def waits(text: str, job: str, plugins: str = RULES, actions: str = "enqueue, allocate, backfill") -> Explain:
    reported: dict[str, Explain] = {effect.job: effect for effect in decide(text, plugins, actions).of(Explain)}
    return reported[f"default/{job}"]


# How many jobs


def test_max_running_jobs_of_a_queue() -> None:
    """One job runs; of the two waiting jobs the older is admitted."""
    text = """
        node n1 cpu=8
        queue q maxrunning=2
        job a queue=q phase=Running: 1 x cpu=1 on=n1
        job b queue=q phase=Pending minres.cpu=1:
        job c queue=q phase=Pending minres.cpu=1:
    """
    assert admitted(text) == ["b"]
    said = waits(text, "c")
    assert (said.gate, said.message) == ("limits", 'maxRunningJobs of queue "q" reached (2/2)')
    assert (said.unblocked_by, said.blocked_by) == ('end of 1 job in queue "q"', ())
    assert said.numbers.items() >= {"queue": "q", "limit": "2", "admitted": "2"}.items()


@pytest.mark.parametrize(("phase", "free"), [("Inqueue", 0), ("Running", 0), ("Unknown", 0), ("Completed", 1)])
def test_admitted_jobs_count_until_they_are_over(phase: str, free: int) -> None:
    text = f"""
        node n1 cpu=8
        queue q maxrunning=1
        job a queue=q phase={phase}: 1 x cpu=9
        job b queue=q phase=Pending:
    """
    assert admitted(text.replace("1 x cpu=9", "")).count("b") == free


def test_a_limit_of_a_queue_includes_its_descendants() -> None:
    text = """
        node n1 cpu=8
        queue root
        queue lab maxrunning=2
        queue ml parent=lab
        queue web parent=lab
        job a queue=ml phase=Running: 1 x cpu=1 on=n1
        job b queue=web phase=Running: 1 x cpu=1 on=n1
        job c queue=ml phase=Pending:
        job d phase=Pending:
    """
    assert admitted(text) == ["d"]
    assert waits(text, "c").message == 'maxRunningJobs of queue "lab" reached (2/2)'


def test_the_message_names_the_nearest_reached_limit() -> None:
    text = """
        node n1 cpu=8
        queue root maxrunning=1
        queue q limit.user.ana.running=1
        job a queue=q user=ana phase=Running: 1 x cpu=1 on=n1
        job b queue=q user=ana phase=Pending:
        job c queue=q user=bo phase=Pending:
    """
    assert waits(text, "b").message == 'maxRunningJobs of user "ana" in queue "q" reached (1/1)'
    assert waits(text, "c").message == 'maxRunningJobs of queue "root" reached (1/1)'


def test_a_limit_applies_to_each_user_of_an_entry() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana+bo.running=1
        job a queue=q user=ana phase=Pending:
        job b queue=q user=ana phase=Pending:
        job c queue=q user=bo phase=Pending:
        job d queue=q user=cy phase=Pending:
        job e queue=q user=cy phase=Pending:
    """
    assert admitted(text) == ["a", "c", "d", "e"]


def test_a_star_applies_to_each_user_without_an_entry() -> None:
    """ana has her own entry, in any position of the star; bo, cy and unknown submitters may run one job each."""
    text = """
        node n1 cpu=8
        queue q limit.user.*.running=1 limit.user.ana.running=2
        job a queue=q user=ana phase=Pending:
        job b queue=q user=ana phase=Pending:
        job c queue=q user=bo phase=Pending:
        job d queue=q user=bo phase=Pending:
        job e queue=q user=cy phase=Pending:
        job f queue=q phase=Pending:
        job g queue=q phase=Pending:
    """
    assert admitted(text) == ["a", "b", "c", "e", "f"]
    assert waits(text, "g").message == ('maxRunningJobs of the unknown user in queue "q" reached (1/1)')


def test_only_the_first_entry_of_a_user_applies() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana+bo.running=2 limit.user.ana.running=1
        job a queue=q user=ana phase=Pending:
        job b queue=q user=ana phase=Pending:
        job c queue=q user=ana phase=Pending:
    """
    assert admitted(text) == ["a", "b"]


def test_the_members_of_a_group_share_its_limit() -> None:
    text = """
        node n1 cpu=8
        queue q limit.group.phd.running=2
        job a queue=q user=ana groups=phd phase=Pending:
        job b queue=q user=bo groups=staff+phd phase=Pending:
        job c queue=q user=cy groups=phd phase=Pending:
        job d queue=q user=dan groups=staff phase=Pending:
    """
    assert admitted(text) == ["a", "b", "d"]
    assert waits(text, "c").message == 'maxRunningJobs of group "phd" in queue "q" reached (2/2)'
    assert waits(text, "c").blocked_by == ("job default/a", "job default/b")


def test_of_several_groups_the_first_with_an_entry_applies() -> None:
    """ana is in both groups: the first entry is that of staff, so her jobs do not count for phd."""
    text = """
        node n1 cpu=8
        queue q limit.group.staff.running=2 limit.group.phd.running=1
        job a queue=q user=ana groups=phd+staff phase=Pending:
        job b queue=q user=ana groups=phd+staff phase=Pending:
        job c queue=q user=bo groups=phd phase=Pending:
    """
    assert admitted(text) == ["a", "b", "c"]


def test_limits_of_a_user_and_of_its_group_both_apply() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.*.running=2 limit.group.phd.running=3
        job a queue=q user=ana groups=phd phase=Pending:
        job b queue=q user=ana groups=phd phase=Pending:
        job c queue=q user=ana groups=phd phase=Pending:
        job d queue=q user=bo groups=phd phase=Pending:
        job e queue=q user=bo groups=phd phase=Pending:
    """
    assert admitted(text) == ["a", "b", "d"]
    assert waits(text, "c").numbers["user"] == "ana"
    assert waits(text, "e").numbers["group"] == "phd"


def test_a_limit_of_zero_jobs_has_a_message() -> None:
    text = "node n1 cpu=8\nqueue q limit.user.ana.running=0\njob a queue=q user=ana phase=Pending:"
    said = waits(text, "a")
    assert said.message == 'maxRunningJobs of user "ana" in queue "q" reached (0/0)'
    assert said.unblocked_by == 'raising maxRunningJobs of user "ana" in queue "q"'


def test_a_lowered_limit_evicts_no_running_job_and_starts_no_admitted_one() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana.running=1
        job a queue=q user=ana phase=Running: 1 x cpu=1 on=n1
        job b queue=q user=ana phase=Inqueue: 1 x cpu=1
        job c queue=q user=ana phase=Pending:
    """
    assert bound(text) == []
    for job in ("b", "c"):
        assert waits(text, job).unblocked_by == 'end of 1 job of user "ana" in queue "q"'


@pytest.mark.parametrize("queue", ["q", "q fifo"])
def test_a_user_at_the_job_limit_does_not_block_others_in_a_fifo_queue(queue: str) -> None:
    text = f"""
        node n1 cpu=8
        queue {queue} limit.user.ana.running=1
        job a queue=q user=ana phase=Running: 1 x cpu=1 on=n1
        job b queue=q user=ana phase=Pending minres.cpu=1:
        job c queue=q user=bo phase=Pending minres.cpu=1:
    """
    assert admitted(text) == ["c"]


def test_a_job_below_its_minimum_still_counts_as_running() -> None:
    """One of its pods still runs, so the job counts: it is admitted again, and the next is not."""
    text = """
        node n1 cpu=8
        queue q maxrunning=1
        job next queue=q phase=Pending:
        job old queue=q phase=Pending min=2 minres.cpu=2: 1 x cpu=1 on=n1
    """
    assert admitted(text) == ["old"]


@pytest.mark.parametrize("actions", ["backfill", "allocate", "allocate, backfill", "enqueue, backfill"])
def test_an_admitted_job_beyond_the_limit_does_not_start_whatever_the_actions(actions: str) -> None:
    assert bound("node n1\nqueue q maxrunning=0\njob a queue=q: 1 x", actions=actions) == []


def test_without_enqueue_jobs_start_within_the_limits_by_priority() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana.running=1
        class high value=9
        job a queue=q user=ana phase=Pending: 1 x cpu=1
        job b queue=q user=ana priority=high phase=Pending: 1 x cpu=1
        job c queue=q user=bo phase=Pending: 1 x cpu=1
    """
    assert bound(text, "gang, priority, predicates", "allocate") == ["b-0", "c-0"]
    said = waits(text, "a", "gang, priority, predicates", "allocate")
    assert said.message == 'maxRunningJobs of user "ana" in queue "q" reached (1/1)'


def test_limits_apply_without_any_plugin() -> None:
    text = "node n1 cpu=8\nqueue q limit.user.ana.cpu=1\njob a queue=q user=ana min=1: 3 x cpu=1"
    assert bound(text, "") == ["a-0"]


# What they hold


def test_pods_of_a_user_are_placed_up_to_its_resource_limit() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana.cpu=3
        job a queue=q user=ana phase=Running min=1: 1 x cpu=2 on=n1, 2 x cpu=1
        job b queue=q user=bo min=1: 2 x cpu=1
    """
    assert bound(text) == ["a-1", "b-0", "b-1"]
    said = waits(text, "a")
    assert (said.gate, said.message) == (
        "limits",
        'resource limit of user "ana" in queue "q" exceeded: cpu requested 1, allocated 3, limit 3',
    )
    assert said.unblocked_by == 'release of 1 cpu by user "ana" in queue "q"'
    assert said.amounts == {
        "requested": {"cpu": "1"},
        "allocated": {"cpu": "3"},
        "limit": {"cpu": "3"},
        "available": {"cpu": "0"},
    }


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana.cpu=3
        job a queue=q user=ana: 4 x cpu=1
        job b queue=q user=ana: 3 x cpu=1
    """
    assert bound(text) == ["b-0", "b-1", "b-2"]
    assert (
        waits(text, "a").unblocked_by
        == 'raising the resource limit of user "ana" in queue "q" by 1 cpu, or a smaller request'
    )


def test_allocations_of_a_user_in_descendant_queues_count() -> None:
    text = """
        node n1 cpu=8
        queue root
        queue lab limit.user.ana.cpu=3
        queue ml parent=lab
        queue web parent=lab limit.user.ana.cpu=2
        job a queue=ml user=ana: 1 x cpu=2 on=n1
        job b queue=web user=ana min=1: 2 x cpu=1
        job c user=ana: 1 x cpu=1
    """
    assert bound(text) == ["b-0", "c-0"]
    assert (
        waits(text, "b").message
        == 'resource limit of user "ana" in queue "lab" exceeded: cpu requested 1, allocated 3, limit 3'
    )


def test_only_requested_resources_are_checked_against_limits() -> None:
    """ana exceeds her gpu limit: pods without gpu requests are not limited."""
    text = """
        node n1 cpu=8 gpu=4
        queue q limit.user.ana.gpu=1
        job a queue=q user=ana: 1 x cpu=1 gpu=2 on=n1
        job b queue=q user=ana: 1 x cpu=1
        job c queue=q user=ana: 1 x cpu=1 gpu=1
    """
    assert bound(text) == ["b-0"]


def test_a_user_at_the_resource_limit_does_not_block_others_in_a_fifo_queue() -> None:
    text = """
        node n1 cpu=8
        queue q fifo limit.user.ana.cpu=1
        job a queue=q user=ana: 2 x cpu=1
        job b queue=q user=bo: 1 x cpu=1
    """
    assert bound(text) == ["b-0"]


def test_backfill_respects_a_limit_on_pods() -> None:
    text = "node n1 cpu=8\nqueue q limit.user.ana.pods=2\njob a queue=q user=ana min=1: 3 x cpu=0"
    assert bound(text) == ["a-0", "a-1"]
    assert (
        waits(text, "a").message
        == 'resource limit of user "ana" in queue "q" exceeded: pods requested 1, allocated 2, limit 2'
    )


def test_terminating_pods_do_not_count_against_limits() -> None:
    text = """
        node n1 cpu=8
        queue q limit.user.ana.cpu=1
        job a queue=q user=ana: 1 x cpu=1 on=n1 releasing
        job b queue=q user=ana: 1 x cpu=1
    """
    assert bound(text) == ["b-0"]


def test_a_job_above_the_limit_of_its_user_is_not_admitted() -> None:
    """Its request does not block other jobs."""
    text = """
        node n1 cpu=4
        queue q limit.user.ana.cpu=3
        job a queue=q user=ana phase=Inqueue minres.cpu=2:
        job b queue=q user=ana phase=Pending minres.cpu=2:
        job c queue=q user=bo phase=Pending minres.cpu=2:
    """
    assert admitted(text, "gang, overcommit, predicates") == ["c"]
    said = waits(text, "b", "gang, overcommit, predicates")
    assert (
        said.message
        == 'resource limit of user "ana" in queue "q" exceeded: cpu requested 2, allocated 0, reserved 2, limit 3'
    )
    assert said.unblocked_by == 'release of 1 cpu by user "ana" in queue "q"'


# Evictions


CROWDED = """
    class high value=9
    node n1 cpu=4
    queue q limit.user.ana.cpu=2
    job a queue=q user=ana phase=Running min=0: 2 x cpu=1 on=n1
    job b queue=q user=bo phase=Running min=0: 2 x cpu=1 on=n1
"""


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_at_the_limit_a_job_preempts_jobs_of_its_own_user(action: str) -> None:
    text = CROWDED + "job c queue=q user=ana priority=high: 1 x cpu=1"
    made = decide(text, "gang, priority, predicates", f"enqueue, allocate, {action}")
    assert {effect.group for effect in made.of(Evict)} == {"default/a"}


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_no_preemption_for_a_job_that_a_limit_still_rejects(action: str) -> None:
    """Only pods of bo could be evicted, which would not reduce the allocation of ana."""
    text = CROWDED.replace("cpu=1 on=n1\n    job b", "cpu=1 on=n1 note.volcanopy.io/preemptable=false\n    job b")
    text += "job c queue=q user=ana priority=high: 1 x cpu=1"
    assert "preemptable=false" in text
    assert decide(text, "gang, priority, predicates", f"enqueue, allocate, {action}").of(Evict) == []


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_no_reclaim_for_a_job_that_a_limit_rejects(action: str) -> None:
    text = """
        node n1 cpu=4
        queue q limit.user.ana.cpu=1
        queue r
        job a queue=r phase=Running min=0: 4 x cpu=1 on=n1
        job b queue=q user=ana: 2 x cpu=1
        job c queue=q user=bo: 1 x cpu=1
    """
    made = decide(text, "gang | predicates, proportion", f"enqueue, allocate, {action}")
    assert {effect.preemptor for effect in made.of(Evict)} == {"default/c"}


def test_a_job_is_admitted_if_it_can_preempt_jobs_of_its_user() -> None:
    text = CROWDED + "job c queue=q user=ana priority=high phase=Pending minres.cpu=1:"
    assert "c" not in admitted(text, "gang, priority, predicates")
    assert "c" in admitted(text, "gang, priority, predicates", "enqueue, allocate, preempt")


def test_a_plan_with_limits_is_printed_and_read_back() -> None:
    assert (
        plan(
            """
            node n1 cpu=4
            queue q maxrunning=3 limit.user.*.cpu=2
            job a queue=q user=ana: 3 x cpu=1
            job b queue=q user=bo: 2 x cpu=1
            """,
            RULES,
        )
        == """
            bind b-0 -> n1
            bind b-1 -> n1
            podgroup a Inqueue Unschedulable: resource limit of user "ana" in queue "q" covers 2 of 3 pods: cpu requested 3, allocated 0, limit 2
        """
    )
