"""Comparison of the limits of a session with the reference implementation."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.reference import user_limits
from tests.scheduler.reference.user_limits import AssignedPod
from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.task_status import HOLDING, Status
from volcanopy_testing import random_worlds
from volcanopy_testing.notation import config, snapshot, world

CHAINS = ("enqueue, allocate, backfill", "allocate, preempt", "enqueue, allocate, backfill, preempt, reclaim")
_HELD = [*np.flatnonzero(HOLDING).tolist(), int(Status.PIPELINED)]


def limited_world(seed: int) -> str:
    """A random world in which at least one queue has limits."""
    throw = Random(seed)
    while "limit." not in (text := random_worlds.world(throw)) and "maxrunning" not in text:
        pass
    return text


def holders(session: Session) -> dict[int, AssignedPod]:
    """Return the jobs of a session."""
    ledger, jobs, result = session.ledger, session.snapshot.jobs, {}
    before = session.snapshot.jobs.counts[HOLDING].sum(axis=0)
    for row in range(len(jobs)):
        if jobs.keys[row] is None or jobs.queue[row] < 0:
            continue
        submitter = jobs.submitters[jobs.submitter[row]]
        held: dict[str, int] = {}
        for task in session.snapshot.members(row).tolist():
            if ledger.status[task] in _HELD:
                for name, units in TaskView(ledger, task).request.items():
                    held[name] = held.get(name, 0) + units
        admitted = str(ledger.phase[row]) in {"Inqueue", "Running", "Unknown"} and not session.snapshot.blocked[row]
        admitted |= before[row] > 0
        queue = session.snapshot.queues.names[jobs.queue[row]]
        counts = admitted and jobs.groups[row] is not None
        result[row] = AssignedPod(queue, submitter.user, submitter.groups, counts, held)
    return result


@examples(120)
@given(st.integers(0, 10**6), st.sampled_from(CHAINS), st.integers(1, 3))
def test_limits_equal_the_reference(seed: int, chain: str, count: int) -> None:
    text = limited_world(seed)
    queues = {obj.metadata.name: obj for obj in world(text) if isinstance(obj, core.Queue)}
    session = Session(snapshot(text), config("priority, gang, predicates", chain))
    for step in ("", *session.config.actions):
        if step:
            builtin().actions[step](session, {})
        if session.limits is None:
            assert not any(queue.spec.limits or queue.spec.max_running_jobs is not None for queue in queues.values())
            return
        jobs = holders(session)
        everyone = list(jobs.values())
        for row, item in jobs.items():
            job = JobView(session.ledger, row)
            assert (session.limits.exceeds_job_count(job) is None) == user_limits.may_be_admitted(
                queues, item, everyone
            )
            for task in session.snapshot.members(row)[:4].tolist():
                view = TaskView(session.ledger, task)
                may = user_limits.may_hold(queues, item, everyone, dict(view.request.items()), count)
                assert (session.limits.limit_rejection(job.queue, view, count) is None) == may
