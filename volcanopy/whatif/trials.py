"""Trials of changes: which of the waiting jobs start after each.

The scheduler decides the same for the same cluster. A change that leads to the same objects as an earlier one, whichever
job it was for, is therefore not run again, as long as the earlier run had decided about the job.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif.admission import new_problems
from volcanopy.whatif.changes import Delete
from volcanopy.whatif.cluster import Cluster, Key
from volcanopy.whatif.engine import Budget, Engine
from volcanopy.whatif.kinds import ManifestError

Apply = Callable[[Cluster], SchedulerConfig]
"""Changes the cluster, and returns the configuration after the change. Raises kinds.ManifestError."""


@dataclass(frozen=True)
class _Outcome:
    """Result of a run of a changed cluster. ``came_to_rest``: jobs that have not started never do."""

    objects: dict[Key, Any]
    jobs: frozenset[str]
    config: SchedulerConfig
    started_groups: frozenset[str]
    came_to_rest: bool

    def decides(self, group: str) -> bool:
        """Return whether it is known from this run whether a job starts."""
        return self.came_to_rest or group in self.started_groups


@dataclass
class Trials:
    """The trials of one question about a cluster without changes. ``groups`` are the pod groups of all jobs that it is about."""

    engine: Engine
    groups: frozenset[str]
    _outcomes: dict[frozenset[Key], list[_Outcome]] = field(default_factory=dict)
    """By the keys of the objects that are deleted."""
    _of_deletions: dict[frozenset[Delete], _Outcome] = field(default_factory=dict)
    """Of changes that only delete: these need not be applied to be recognised."""

    def starts_without(self, group: str, deletions: frozenset[Delete]) -> bool | None:
        """Return whether a job starts after these deletions; None if no earlier trial has shown it."""
        outcome = self._of_deletions.get(deletions)
        return group in outcome.started_groups if outcome is not None and outcome.decides(group) else None

    def starts(self, group: str, apply: Apply, budget: Budget, deletions: frozenset[Delete] = frozenset()) -> bool:
        """Return whether a job starts after a change that admission accepts. Raises BudgetEndedError.

        ``deletions`` are the whole change, if it only deletes.
        """
        cluster = self.engine.cluster
        with cluster.trial():
            before = cluster.mark()
            try:
                config = apply(cluster)
                if new_problems(cluster, before):
                    return False
                outcome = self._outcome(group, config, budget)
            except ManifestError:
                return False
        if deletions:
            self._of_deletions[deletions] = outcome
        return group in outcome.started_groups

    def _outcome(self, group: str, config: SchedulerConfig, budget: Budget) -> _Outcome:
        """Return the outcome for the cluster as it is, which decides about a job."""
        cluster = self.engine.cluster
        keys = cluster.changes_since(0)
        objects = {key: cluster.objects[key] for key in keys if key in cluster.objects}
        jobs = frozenset(cluster.changed_jobs)
        outcomes = self._outcomes.setdefault(frozenset(keys).difference(objects), [])
        for outcome in outcomes:
            if (outcome.jobs, outcome.config, outcome.objects) == (jobs, config, objects):
                if outcome.decides(group):
                    return outcome
                outcomes.remove(outcome)
                break
        run = self.engine.run(budget, self.groups | {group}, group, config=config)
        outcomes.append(_Outcome(objects, jobs, config, frozenset(run.started), group not in run.started))
        return outcomes[-1]
