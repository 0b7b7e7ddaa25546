"""An admitted job without pods on nodes gives way to a later job of higher priority of its queue."""

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model.plan import Evict
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, world

ACTIONS = "enqueue, allocate, backfill"
FULL = "class high value=1000\nqueue q {}\nqueue other unreclaimable\nnode n1 cpu=4\njob busy queue=other: 2 x cpu=2 on=n1\n"
LOW = "job low queue=q phase=Pending min=2 minres.cpu=4 user=ana: 2 x cpu=2\n"
HIGH = "class high value=1000\njob high queue=q priority=high phase=Pending min=2 minres.cpu=4 user=ana: 2 x cpu=2\n"
LIMITS = ("", "capability.cpu=4", "maxrunning=1", "limit.user.*.cpu=4", "limit.user.*.running=1", "fifo")


def tiers(shares: str) -> str:
    return f"priority, gang | overcommit, drf, slowdown, predicates, {shares}, nodeorder, reservation"


class Cycles(Simulation):
    def __init__(self, text: str, shares: str = "proportion", actions: str = ACTIONS) -> None:
        super().__init__(world(text), config(tiers(shares), actions=actions))
        self.evictions: list[str] = []

    def settle(self, text: str = "") -> "Cycles":
        """Run cycles until nothing changes; first add the pods and groups of a text, created now."""
        self.add(
            replace(obj, metadata=replace(obj.metadata, creation_timestamp=self.now))
            for obj in world(text)
            if isinstance(obj, core.Pod | core.PodGroup)
        )
        for _ in range(8):
            self.evictions += [effect.pod for effect in self.cycle().of(Evict)]
        return self

    def end(self, *pods: str) -> "Cycles":
        for name in pods:
            pod = self.pod(f"default/{name}")
            assert pod is not None
            self.cluster.remove("Pod", pod.metadata.key)
        return self

    def phase(self, group: str) -> str:
        found = self.cluster.group(f"default/{group}")
        assert found is not None
        return found.status.phase

    def runs(self, *pods: str) -> bool:
        return all((pod := self.pod(f"default/{name}")) is not None and bool(pod.spec.node_name) for name in pods)


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("limit", LIMITS)
def test_the_later_job_of_higher_priority_starts_first(shares: str, limit: str) -> None:
    cycles = Cycles(FULL.format(limit) + LOW, shares).settle()
    assert cycles.phase("low") == "Inqueue"
    cycles.settle(HIGH).end("busy-0", "busy-1").settle()
    assert cycles.runs("high-0", "high-1")


@pytest.mark.parametrize("limit", LIMITS)
def test_the_earlier_job_does_not_start_while_the_pods_of_the_later_one_are_created(limit: str) -> None:
    cycles = Cycles(FULL.format(limit) + LOW).settle()
    cycles.settle(HIGH.replace(": 2 x cpu=2", "")).end("busy-0", "busy-1").settle()
    assert (cycles.phase("low"), cycles.phase("high")) == ("Pending", "Inqueue")


def test_with_preempt_nothing_starts_that_would_be_evicted() -> None:
    cycles = Cycles(FULL.format("capability.cpu=4") + LOW, actions="enqueue, allocate, preempt, backfill")
    cycles.settle().settle(HIGH).end("busy-0", "busy-1").settle()
    assert cycles.runs("high-0", "high-1")
    assert not cycles.evictions


def test_a_job_of_equal_priority_does_not_give_way() -> None:
    cycles = Cycles(FULL.format("") + LOW).settle().settle(HIGH.replace("priority=high ", ""))
    assert (cycles.phase("low"), cycles.phase("high")) == ("Inqueue", "Pending")


def test_a_job_of_another_queue_does_not_give_way() -> None:
    text = FULL.format("\nqueue elsewhere") + LOW.replace("queue=q", "queue=elsewhere")
    cycles = Cycles(text).settle().settle(HIGH)
    assert cycles.phase("low") == "Inqueue"


def test_a_job_with_a_running_pod_does_not_give_way() -> None:
    text = FULL.format("capability.cpu=4").replace("2 x cpu=2 on=n1", "1 x cpu=2 on=n1")
    cycles = Cycles(text + "job low queue=q min=1: 1 x cpu=2 on=n1, 1 x cpu=2\n").settle().settle(HIGH)
    assert (cycles.phase("low"), cycles.phase("high")) == ("Running", "Pending")


def test_no_more_admissions_are_withdrawn_than_needed() -> None:
    text = "class high value=1000\nqueue q\nqueue other weight=100\nnode n1 cpu=32\njob busy queue=other: 1 x cpu=32 on=n1\n"
    lows = "".join(f"job l{number} queue=q min=1 minres.cpu=2: 1 x cpu=2\n" for number in range(3))
    cycles = Cycles(text + lows)
    cycles.settle("class high value=1000\njob high queue=q priority=high phase=Pending min=1 minres.cpu=4: 1 x cpu=4\n")
    # Of 38.4 cpus that may be requested 32 are used. What is reserved for the first job does not count for those behind it.
    assert [cycles.phase(name) for name in ("l0", "l1", "l2", "high")] == ["Inqueue", "Inqueue", "Pending", "Inqueue"]


def test_a_job_that_withdrawals_do_not_help_leaves_the_others_as_they_are() -> None:
    cycles = Cycles(FULL.format("capability.cpu=4") + LOW).settle()
    cycles.settle(HIGH.replace("minres.cpu=4", "minres.cpu=5"))
    assert (cycles.phase("low"), cycles.phase("high")) == ("Inqueue", "Pending")


def test_a_job_whose_victims_terminate_does_not_give_way() -> None:
    text = """
        class high value=1000
        class middle value=10
        queue q capability.cpu=4
        node n1 cpu=4
        job old queue=q min=0: 2 x cpu=2 on=n1
        job waits queue=q priority=middle phase=Pending min=2 minres.cpu=4: 2 x cpu=2
    """
    cycles = Cycles(text, actions="enqueue, allocate, preempt, backfill")
    cycles.graceful = True
    cycles.settle()
    assert cycles.evictions
    cycles.settle(HIGH)
    assert cycles.phase("waits") == "Inqueue"
