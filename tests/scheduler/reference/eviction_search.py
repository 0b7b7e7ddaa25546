"""The search of victims without its shortcuts: slow and obvious, for comparison."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest

from volcanopy.scheduler.actions.evict import node_candidates, victim_search
from volcanopy.scheduler.actions.evict.candidates import Candidates, Searches
from volcanopy.scheduler.actions.evict.counter_evictions import CounterEvictions
from volcanopy.scheduler.actions.evict.domain_search import DomainSearch
from volcanopy.scheduler.actions.evict.node_candidates import NodeCandidates, ShapeState
from volcanopy.scheduler.actions.evict.rules import Rule
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import TaskView


def use(patch: pytest.MonkeyPatch) -> None:
    """Let all searches try everything: each node with candidates, each node for each task, each victim, each job."""
    patch.setattr(Searches, "candidates", _new_candidates)
    patch.setattr(victim_search, "node_candidates", _every_node)
    patch.setattr(victim_search, "least_cost", lambda *_: _LEAST)
    patch.setattr(ShapeState, "is_still_full", lambda *_: False)
    patch.setattr(CounterEvictions, "returning_job", _returning_job)
    patch.setattr(DomainSearch, "_is_rejected", lambda *_: False)


_LEAST = (-1.0,)
"""Below the cost of any eviction."""
_node_candidates = node_candidates.node_candidates


def _new_candidates(self: Searches, rules: Sequence[Rule], task: TaskView, _: Hashable) -> Candidates:
    return Candidates(self.session, self.costs, rules, task, self.breaks_gangs)


def _every_node(*asked: Any) -> NodeCandidates:
    session, candidates = asked[0], _node_candidates(*asked)
    nodes = np.unique(session.ledger.node[candidates.ordered])
    bounds = np.stack([np.full(len(nodes), *_LEAST), nodes])
    return NodeCandidates(candidates.scores, candidates.ordered, candidates._ends, bounds)


def _returning_job(
    self: CounterEvictions, statement: Statement, preemptors: Sequence[TaskView], victims: Sequence[int]
) -> int | None:
    """All jobs of victims are asked, with the preemptors running."""
    if not victims:
        return None
    mark = statement.checkpoint()
    for row in victims:
        statement.withdraw_all(np.array([row], dtype=np.intp))
    owners = self._session.snapshot.tasks.job
    jobs = list(dict.fromkeys(int(owners[row]) for row in victims))
    # each job alone: what was found for another is not used
    each = (row for row in jobs if self._returning_among(statement, [*preemptors], [row]) is not None)
    result = next(each, None)
    statement.rollback(mark)
    return result
