"""Two queues of which one lacks as much of its fair share with a gang as the other does without it: they take turns by credit."""

from itertools import pairwise

import pytest

from tests.scheduler.long_run.cases import config
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Single
from volcanopy.scheduler.model.plan import Explain

RECLAIM = "enqueue, allocate, backfill, {}"
WORLD = "node n1 cpu=10\nqueue a deserved.cpu=5\nqueue b deserved.cpu=5"


def run(action: str, share: str, *later: Single) -> LongRun:
    """Queue a has a gang on the whole cluster when the first job of queue b arrives."""
    chosen = config(RECLAIM.format(action), share, without=("reservation", "overcommit"))
    return LongRun(WORLD, chosen, (), (Single("x", "a", 1, 10, "1", 600), *later))


@pytest.mark.parametrize("share", ["proportion", "capacity"])
@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_the_queue_that_waits_gets_its_share_when_it_has_more_credit(action: str, share: str) -> None:
    cluster = run(action, share, Single("y", "b", 5, 5, "1", 30))
    messages = list[str]()
    for _ in range(15):
        messages += [effect.message for effect in cluster.cycle().of(Explain) if effect.job.endswith("/y")]
    assert cluster.waits["y"] in range(2, 7)
    assert {pod for _, pod, _, _ in cluster.evictions} == {f"default/x-{number}" for number in range(10)}
    assert any('without job "x" queue "a" would lack as much' in message for message in messages), messages


@pytest.mark.parametrize("share", ["proportion", "capacity"])
def test_queues_do_not_evict_each_other_again_and_again(share: str) -> None:
    """Jobs of queue b keep coming: the gang runs between them, and is not evicted again before the cooldown is over."""
    later = [Single(f"y{number}", "b", 5 + 12 * number, 5, "1", 10) for number in range(12)]
    cluster = run("reclaim", share, *later)
    for _ in range(150):
        cluster.cycle()
    moments = sorted({cycle for cycle, _, _, _ in cluster.evictions})
    assert moments
    assert all(later - earlier >= 30 for earlier, later in pairwise(moments))
    assert all(queue == "a" for _, _, queue, _ in cluster.evictions)
