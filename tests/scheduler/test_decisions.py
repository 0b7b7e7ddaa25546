"""Decisions of the scheduler: one behaviour per world."""

from volcanopy_testing.notation import decide, plan

DEFAULT = "priority, gang, conformance | overcommit, drf, predicates, proportion, nodeorder, binpack"


def test_a_gang_that_cannot_start_is_allocated_nothing() -> None:
    """Two cpus are free, job b requires three at once: it is allocated none and has a reason."""
    assert plan(
        """
        node n1 cpu=4
        node n2 cpu=4
        job  a  min=2: 2 x cpu=3
        job  b  min=3: 3 x cpu=1
        """,
        "gang, predicates, binpack",
    ) == (
        """
        bind a-0 -> n1
        bind a-1 -> n2
        podgroup b Inqueue Unschedulable: 3 pods must start together, 2 can be placed: 0/2 nodes are available: 2 Insufficient cpu
        """
    )


def test_resources_tried_by_a_failed_gang_are_free_for_the_next() -> None:
    assert plan(
        """
        node n1 cpu=4
        job  a  min=5: 5 x cpu=1
        job  b  min=4: 4 x cpu=1
        """,
        "gang, predicates",
    ) == (
        """
        bind b-0 -> n1
        bind b-1 -> n1
        bind b-2 -> n1
        bind b-3 -> n1
        podgroup a Inqueue Unschedulable: 5 pods must start together, 4 can be placed: 0/1 nodes are available: 1 Insufficient cpu
        """
    )


def test_without_the_gang_plugin_pods_start_individually() -> None:
    assert plan("node n1 cpu=1\njob a min=2: 2 x cpu=1", "predicates") == "bind a-0 -> n1"


def test_a_role_that_lacks_its_minimum_keeps_the_whole_gang_waiting() -> None:
    """Four workers fit and the minimum is four, but the one ps fits nowhere."""
    made = plan(
        """
        node n1 cpu=4
        job  a  min=4: 1 x cpu=8 role=ps min=1, 4 x cpu=1 role=worker min=3
        """,
        "gang, predicates",
    )
    assert made == "podgroup a Inqueue Unschedulable: 0/1 nodes are available: 1 Insufficient cpu"


def test_role_minimums_do_not_apply_if_the_job_minimum_is_lower() -> None:
    made = plan("node n1 cpu=4\njob a min=3: 1 x cpu=8 role=ps min=1, 4 x cpu=1 role=worker min=3", "gang, predicates")
    assert [line for line in made.lines if line.startswith("bind")] == [
        "bind a-worker-0 -> n1",
        "bind a-worker-1 -> n1",
        "bind a-worker-2 -> n1",
        "bind a-worker-3 -> n1",
    ]


def test_higher_priority_is_first_regardless_of_age() -> None:
    assert (
        plan(
            """
        class high value=100
        node n1 cpu=1
        job early: 1 x cpu=1
        job late priority=high: 1 x cpu=1
        """,
            "priority, gang | predicates",
        ).lines[0]
        == "bind late-0 -> n1"
    )


def test_a_gang_waits_for_a_pod_that_terminates_without_a_nomination() -> None:
    """Nobody evicted the pod for the gang: the next cycle may place it elsewhere, and autoscalers count it."""
    made = plan("node n1 cpu=2\njob old: 1 x cpu=2 on=n1 releasing\njob new: 1 x cpu=2", "gang, predicates")
    assert [line for line in made.lines if "new" in line] == [
        "podgroup new Inqueue Unschedulable: waiting for 1 pod to terminate",
    ]


def test_best_effort_pods_are_placed_by_backfill_without_a_share() -> None:
    assert plan("node n1 cpu=1\njob a: 1 x cpu=1\njob b: 2 x cpu=0", DEFAULT) == (
        """
        bind a-0 -> n1
        bind b-0 -> n1
        bind b-1 -> n1
        """
    )


def test_gated_pods_wait_for_their_gate() -> None:
    assert not [line for line in plan("node n1 cpu=4\njob a min=1: 1 x cpu=1 gated", DEFAULT).lines if "bind" in line]


def test_queues_share_by_weight() -> None:
    made = decide(
        """
        node n1 cpu=8
        queue q1 weight=1
        queue q2 weight=3
        job a min=1 queue=q1: 8 x cpu=1
        job b min=1 queue=q2: 8 x cpu=1
        """,
        DEFAULT,
    )
    bound = [str(effect) for effect in made.effects if str(effect).startswith("bind")]
    assert sum("a-" in line for line in bound) == 2
    assert sum("b-" in line for line in bound) == 6


def test_a_pending_job_is_admitted_when_its_minimum_fits_and_its_pods_are_placed_at_once() -> None:
    assert plan("node n1 cpu=4\njob a phase=Pending minres.cpu=2: 2 x cpu=1", DEFAULT) == (
        """
        bind a-0 -> n1
        bind a-1 -> n1
        podgroup a Inqueue Scheduled: gang is ready: the required pods have nodes
        """
    )


def test_a_job_larger_than_the_cluster_is_not_admitted() -> None:
    made = plan("node n1 cpu=4\njob a phase=Pending minres.cpu=9: 9 x cpu=1", DEFAULT)
    assert made.lines == [
        "podgroup a Pending Unschedulable: request exceeds the capacity of the cluster: cpu requested 9, capacity 4"
    ]


def test_a_job_larger_than_the_free_resources_is_not_admitted() -> None:
    made = plan("node n1 cpu=4\njob r: 4 x cpu=1 on=n1\njob a phase=Pending minres.cpu=2: 2 x cpu=1", DEFAULT)
    assert made.lines == [
        "podgroup a Pending Unschedulable: overcommit limit of the cluster exceeded: cpu requested 2, allocated 4, limit 4.8"
    ]


def test_a_closed_queue_admits_nothing() -> None:
    made = plan("node n1 cpu=4\nqueue q closed\njob a phase=Pending queue=q: 1 x cpu=1", DEFAULT)
    assert made.lines == ['podgroup a Pending Unschedulable: queue "q" is closed']


def test_a_queue_that_does_not_exist_is_named() -> None:
    made = plan("node n1 cpu=4\njob a phase=Pending queue=nowhere: 1 x cpu=1", DEFAULT)
    assert made.lines == ['podgroup a Pending Unschedulable: queue "nowhere" not found']


def test_a_gang_whose_pods_do_not_exist_yet_waits_for_them() -> None:
    made = plan("node n1 cpu=4\njob a min=3: 2 x cpu=1", DEFAULT)
    assert made.lines == ["podgroup a Inqueue Unschedulable: 2/3 required pods created"]


def test_a_running_gang_that_lost_a_member_is_unknown_until_it_has_its_minimum_again() -> None:
    made = decide("node n1 cpu=2\njob a min=3: 2 x cpu=1 on=n1, 1 x cpu=1", DEFAULT)
    assert "podgroup a Unknown Unschedulable" in str(made)


def test_a_running_gang_whose_lost_member_no_controller_makes_again_is_unknown() -> None:
    made = plan("node n1 cpu=2\njob a phase=Running min=3: 2 x cpu=1 on=n1", DEFAULT)
    assert "podgroup a Unknown Unschedulable: 2/3 required pods created" in made.lines


def test_a_job_whose_pods_all_ended_is_completed() -> None:
    assert "podgroup a Completed" in str(decide("node n1 cpu=2\njob a: 2 x cpu=1 on=n1 succeeded", DEFAULT))


def test_queue_statuses_include_descendants() -> None:
    made = str(
        decide(
            """
            node n1 cpu=8
            queue root
            queue team parent=root
            queue lab parent=team
            job a queue=lab: 2 x cpu=1 on=n1
            """,
            DEFAULT,
        )
    )
    for name in ("lab", "team", "root"):
        assert f"queue {name} allocated cpu 2, pods 2" in made
