"""An idle cluster starts what fits, whatever the shares of queues; jobs with reservations and important ones are admitted."""

import json
from random import Random

import pytest

from tests.scheduler.long_run.cases import SLA
from tests.scheduler.long_run.cases import config as default_with
from tests.scheduler.long_run.measures import EIGHT_NODES
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Stream
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import decide, snapshot, world

DEFAULT = default(builtin())


def idle_cluster(dice: Random) -> str:
    """Up to four nodes, queues with weights in a tree of up to two levels, and jobs that each fit alone."""
    lines, sizes = list[str](), [dice.randint(2, 16) for _ in range(dice.randint(1, 4))]
    lines += [f"node n{number} cpu={size}" for number, size in enumerate(sizes)]
    leaves = list[str]()
    for number in range(dice.randint(1, 3)):
        lines.append(f"queue q{number} parent=root weight={dice.randint(1, 4)}")
        children = [f"q{number}c{child}" for child in range(dice.choice([0, 0, 2]))]
        lines += [f"queue {child} parent=q{number} weight={dice.randint(1, 4)}" for child in children]
        leaves += children or [f"q{number}"]
    for number in range(dice.randint(1, 5)):
        cpu = dice.randint(1, max(sizes))
        count = dice.randint(1, sum(size // cpu for size in sizes))
        phase = dice.choice(["phase=Pending", "phase=Inqueue"])
        lines.append(f"job j{number} queue={dice.choice(leaves)} {phase} minres.cpu={cpu * count}: {count} x cpu={cpu}")
    return "\n".join(["queue root", *lines])


def test_an_idle_cluster_on_which_each_job_fits_starts_one() -> None:
    """Fair shares do not cap: what nobody else can use goes to the first in order."""
    for seed in range(40):
        text = idle_cluster(Random(seed))
        plans = Simulation(world(text), DEFAULT).cycles(2)
        assert any(plan.of(Bind) for plan in plans), f"seed {seed}\n{text}"


def test_of_two_gangs_larger_than_the_share_of_their_queue_one_starts() -> None:
    nodes = "".join(f"node n{number} cpu=8\n" for number in range(3))
    gangs = "".join(
        f"queue {queue}\njob {queue}{queue} queue={queue} phase=Pending minres.cpu=13: 13 x cpu=1\n" for queue in "ab"
    )
    plans = list(Simulation(world(nodes + gangs), DEFAULT).cycles(3))
    assert [len(plan.of(Bind)) for plan in plans if plan.of(Bind)] == [13]


@pytest.mark.parametrize("options", [{}, {"first": [SLA]}])
def test_no_gang_is_left_on_an_idle_cluster(options: dict[str, object]) -> None:
    """After an hour without arrivals everything has run, also gangs of which several were overdue at the same time."""
    streams = tuple(Stream(queue, pods=(4, 8, 16), cpu=("1", "2", "3"), backlog=1.0) for queue in ("a", "b"))
    run = LongRun(f"{EIGHT_NODES}\nqueue a\nqueue b", default_with(**options), streams)  # type: ignore[arg-type]
    for _ in range(30):
        run.cycle()
    assert len(run.jobs) > 5
    run.idle |= {"a", "b"}
    for _ in range(80):
        run.cycle()
    assert not run.jobs


def tiers(shares: str, *first: str, actions: str = "enqueue, allocate, backfill") -> SchedulerConfig:
    """The plugin for shares in the second tier, others in the first one."""
    plugins = [{"name": name} for name in ("priority", "gang", *first)]
    document = [{"plugins": plugins}, {"plugins": [{"name": "predicates"}, {"name": shares}]}]
    return parse(json.dumps({"actions": actions, "tiers": document}), builtin())


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("how", "first", "actions"),
    [
        ("", (), "enqueue, allocate, backfill"),
        ("a reservation", ("reservation",), "enqueue, allocate, backfill"),
        ("its waiting time", ("sla",), "enqueue, allocate, backfill"),
        ("its priority", (), "enqueue, allocate, preempt"),
    ],
)
def test_a_large_job_is_admitted_to_a_full_queue_by(
    shares: str, how: str, first: tuple[str, ...], actions: str
) -> None:
    text = """
        class high value=9
        queue q capability.cpu=4
        node n1 cpu=8
        job run queue=q phase=Running minres.cpu=4: 4 x cpu=1 on=n1
        job big queue=q priority=high phase=Pending minres.cpu=4 note.volcanopy.io/sla-waiting-time=1h: 1 x cpu=4
        """
    assert ("podgroup big Inqueue" in str(decide(text, tiers(shares, *first, actions=actions)))) is bool(how)


def test_a_queue_with_an_admitted_job_that_waits_admits_no_other_for_its_reservation() -> None:
    """Otherwise each cycle would admit the next one, and all their pods would be created."""
    waiting = "".join(f"job w{number} queue=q phase=Pending minres.cpu=8: 8 x cpu=1\n" for number in range(6))
    simulation = Simulation(world(f"node n1 cpu=8\nqueue q\njob run queue=q: 8 x cpu=1 on=n1\n{waiting}"), DEFAULT)
    for _ in range(6):
        simulation.cycle()
    assert sum(phase == "Inqueue" for phase in simulation.snapshot().jobs.phase.tolist()) == 1


def test_the_guarantee_of_an_idle_queue_leaves_the_rest_to_its_siblings() -> None:
    text = """
        node n1 cpu=32
        queue root
        queue d parent=root
        queue a parent=d
        queue b parent=d guarantee.cpu=4
        job j queue=a min=0: 40 x cpu=1
        """
    for shares in ("proportion", "capacity"):
        plan = schedule(snapshot(text), tiers(shares, "reservation"))
        assert len(plan.of(Bind)) == 28, shares
