"""Statements: many moves at once change the ledger as one after the other, and are undone exactly."""

from random import Random

import numpy as np

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.task_status import EVICTABLE, Status
from volcanopy_testing import eviction_worlds
from volcanopy_testing.notation import snapshot

COLUMNS = [
    "status",
    "node",
    "used",
    "idle",
    "future",
    "releasing",
    "pipelined",
    "nonzero",
    "job_counts",
    "job_best_effort",
    "job_allocated",
    "role_counts",
    "role_best_effort",
    "queue_allocated",
    "queue_pending",
    "tree_allocated",
    "evictions",
]


def state(ledger: Ledger, statement: Statement) -> list[object]:
    columns = [getattr(ledger, name) for name in COLUMNS]
    return [statement.evicted, *(column if isinstance(column, dict) else column.tolist() for column in columns)]


def test_moves_at_once_equal_those_one_by_one_and_are_undone_exactly() -> None:
    most = 0
    for seed in range(60):
        dice = Random(seed)
        seen = snapshot(eviction_worlds.world(dice))
        single, together = Ledger(seen), Ledger(seen)
        one_by_one, at_once = Statement(single), Statement(together)
        running = np.flatnonzero(EVICTABLE[single.status] & (seen.tasks.job >= 0))
        victims = np.array(dice.sample(running.tolist(), dice.randint(0, len(running))), dtype=np.intp)
        most = max(most, len(victims))
        before = state(together, at_once)
        for row in victims.tolist():
            one_by_one.evict(row, "r")
        at_once.evict_all(victims, "r")
        assert state(together, at_once) == state(single, one_by_one), seed
        assert set(together.touched) == set(single.touched)
        evicted = state(together, at_once)
        mark = at_once.checkpoint()
        pending = np.flatnonzero((single.status == Status.PENDING) & (seen.tasks.job >= 0))
        placed = np.array(dice.sample(pending.tolist(), dice.randint(0, len(pending))), dtype=np.intp)
        for statement in (one_by_one, at_once):
            for row in placed.tolist():
                statement.pipeline(row, row % len(seen.nodes))
        for row in victims.tolist():
            one_by_one.withdraw_all(np.array([row], dtype=np.intp))
        at_once.withdraw_all(victims)
        for row in placed.tolist():
            single.move(row, Status.RUNNING, row % len(seen.nodes))
        at_once.run_all(placed)
        assert state(together, at_once) == state(single, one_by_one), seed
        at_once.rollback(mark)
        assert state(together, at_once) == evicted, seed
        at_once.rollback()
        assert state(together, at_once) == before, seed
    assert most > 5
