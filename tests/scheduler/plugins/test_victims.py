"""The role Victims: what every policy with it answers in random worlds."""

from random import Random

import numpy as np
import pytest

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import EVICTABLE, Status
from volcanopy.scheduler.policy.plugin import Plugin
from volcanopy.scheduler.policy.roles import Purpose, Victims
from volcanopy_testing import random_worlds
from volcanopy_testing.notation import config, snapshot

WORLDS = 60
POLICIES = sorted(name for name, plugin in builtin().plugins.items() if issubclass(plugin, Victims))


class World:
    """A random world, with the tasks that wait and those that may be evicted."""

    def __init__(self, seed: int) -> None:
        dice = Random(seed)
        self.session = Session(snapshot(random_worlds.world(dice)), config(", ".join(POLICIES)))
        ledger, table = self.session.ledger, self.session.snapshot.tasks
        in_jobs = np.isin(table.job, self.session.job_rows)
        self.waiting = [
            TaskView(ledger, row) for row in np.flatnonzero(in_jobs & (ledger.status == Status.PENDING)).tolist()[:3]
        ]
        rows = np.flatnonzero(in_jobs & EVICTABLE[ledger.status]).tolist()
        self.candidates = [TaskView(ledger, row) for row in dice.sample(rows, len(rows))]

    @property
    def policies(self) -> list[Victims]:
        """The policies with the role."""
        return [plugin for plugin in self.session.plugins if isinstance(plugin, Victims)]


def rows(tasks: object) -> list[int]:
    assert isinstance(tasks, list | tuple)
    return [task.row for task in tasks]


def in_order(answer: object, asked: list[int]) -> bool:
    """Whether the answer is part of what was asked about, in its order and without duplicates."""
    chosen = set(rows(answer))
    return rows(answer) == [row for row in asked if row in chosen]


@pytest.mark.parametrize("purpose", list(Purpose))
def test_victims_are_candidates_in_order(purpose: Purpose) -> None:
    selected = 0
    for world in map(World, range(WORLDS)):
        asked = rows(world.candidates)
        for policy in world.policies:
            kind = type(policy)
            for preemptor in world.waiting if purpose is not Purpose.SHUFFLE else [None]:
                if preemptor is not None and kind.allows is not Victims.allows:
                    allowed = policy.allows(preemptor, world.candidates, purpose)
                    assert allowed is None or in_order(allowed, asked), kind
                    selected += bool(allowed)
                if kind.unprotected is not Victims.unprotected:
                    unprotected = policy.unprotected(preemptor, world.candidates, purpose)
                    assert in_order(unprotected, asked), kind
                    selected += bool(unprotected)
    assert selected > WORLDS


def test_a_protection_allows_what_it_leaves() -> None:
    """What is evicted does not depend on whether a protection is asked once or, as in its own tier, twice."""
    for world in map(World, range(WORLDS)):
        for policy in world.policies:
            if not isinstance(policy, Plugin) or policy.name not in {"cdp", "conformance", "pdb"}:
                continue
            for purpose in Purpose:
                once = policy.unprotected(None, world.candidates, purpose)
                assert rows(policy.unprotected(None, once, purpose)) == rows(once), policy.name
