"""Where enough is free for everything that waits, it fits whatever the order, and nothing is reserved."""

from random import Random

import numpy as np
import pytest

from tests import nightly
from tests.scheduler.plugins.scene import configured, seen
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.job_reservations import is_ample
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.task_status import Status

PLUGINS: dict[str, dict[str, object]] = {
    "priority": {},
    "gang": {},
    "predicates": {},
    "proportion": {},
    "reservation": {},
}


def world(dice: Random) -> str:
    """Up to five nodes, partly used, and up to eight waiting gangs in two queues, some of which need a label."""
    lines = ["queue a", "queue b"]
    for node in range(dice.randint(1, 5)):
        label = dice.choice(["", "", " example.com/disk=ssd"])
        lines.append(f"node n{node} cpu={dice.randint(2, 24)} memory={dice.randint(2, 24)}Gi{label}")
    for job in range(dice.randint(1, 8)):
        where = dice.choice(["", "", "", " selector.example.com/disk=ssd"])
        size, cpu, memory = dice.randint(1, 3), dice.randint(1, 3), dice.randint(1, 3)
        lines.append(f"job j{job} queue={dice.choice('ab')}: {size} x cpu={cpu} memory={memory}Gi{where}")
    return "\n".join(lines)


@pytest.mark.parametrize("seeds", nightly.seeds(100, 300, 100, 200))
def test_where_resources_are_ample_all_tasks_fit_in_any_order_on_any_nodes(seeds: range) -> None:
    ample = 0
    for seed in seeds:
        dice = Random(seed)
        text = world(dice)
        session = Session(seen(text), configured(PLUGINS))
        table, free = session.snapshot.tasks, session.ledger.idle.copy()
        rows = np.flatnonzero(table.status == Status.PENDING).tolist()
        if not is_ample(session.cluster, free, np.unique(table.job[rows]).tolist()):
            continue
        ample += 1
        dice.shuffle(rows)
        for row in rows:
            task = session.cluster.task(row)
            request, infeasible = task.request.values, session.placement.infeasible_nodes(task)
            fitting = np.flatnonzero((free >= request[:, None]).all(axis=0) & ~infeasible)
            assert len(fitting), text
            free[:, dice.choice(fitting.tolist())] -= request
    assert ample > len(seeds) / 10


@pytest.mark.parametrize(("cpu", "reserved"), [(4, {"default/first"}), (16, set())])
def test_nothing_is_reserved_for_jobs_that_start_where_resources_are_ample(cpu: int, reserved: set[str]) -> None:
    text = f"""
        queue a
        queue b
        node n1 cpu={cpu} memory=16Gi
        job first queue=a: 1 x cpu=3 memory=1Gi
        job other queue=b: 1 x cpu=2 memory=1Gi
        """
    session = Session(seen(text), configured(PLUGINS))
    keys = session.snapshot.jobs.keys
    assert {str(keys[row]) for row in session.quotas.jobs_with_reserved_nodes()} >= reserved
    assert bool(session.quotas.jobs_with_reserved_nodes()) == bool(reserved)


def test_plans_are_those_without_reservations_where_resources_are_ample() -> None:
    without = {name: arguments for name, arguments in PLUGINS.items() if name != "reservation"}
    compared = 0
    for seed in range(100):
        snapshot = seen(world(Random(seed)))
        session = Session(snapshot, configured(PLUGINS))
        jobs = np.unique(snapshot.tasks.job[snapshot.tasks.status == Status.PENDING]).tolist()
        if is_ample(session.cluster, session.ledger.idle, jobs):
            compared += 1
            assert schedule(snapshot, configured(PLUGINS)).of(Bind) == schedule(snapshot, configured(without)).of(Bind)
    assert compared > 10
