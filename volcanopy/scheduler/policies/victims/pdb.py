"""pdb: evictions respect PodDisruptionBudgets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from volcanopy.api import core
from volcanopy.api.builtin import policy
from volcanopy.api.scheduling import Subjects
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.once import once_by
from volcanopy.scheduler.model.selectors import PodSelector, SelectorIndex, matches
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Purpose, Victims


class PdbArguments(Arguments):
    """Whose pods budgets protect."""

    unpreemptable: Subjects | None = None
    """Subjects whose pods budgets protect, besides those of administrators of the queue, with the fields and the meaning of
    `unpreemptable` in the configuration of admission. Without it: everybody, in queues without administrators."""


class Pdb(Plugin[PdbArguments], Victims):
    """Allow the eviction of a pod while all budgets that select it have disruptions left.

    Evictions of this session are deducted from the budgets. Pods that no budget selects are not protected, nor those whose
    submitter may not protect pods in the queue: everybody may create budgets.
    """

    name: ClassVar[str] = "pdb"
    arguments: ClassVar[type[Arguments]] = PdbArguments

    def open(self) -> None:
        """Index the budgets by the labels that they select."""
        selectors = (
            PodSelector((budget.metadata.namespace,), None, budget.spec.selector)
            for budget in self.cluster.snapshot.budgets
        )
        self._index = SelectorIndex(enumerate(selectors))

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """The victims that all their budgets allow."""
        budgets = self.cluster.snapshot.budgets
        if not budgets:
            return list(victims)
        used: Counter[int] = Counter()
        for row in self.cluster.ledger.evictions:
            used.update(self._of(self.cluster.task(row)))
        allowed = []
        for victim in victims:
            numbers = self._of(victim)
            if all(used[number] < budgets[number].status.disruptions_allowed for number in numbers):
                used.update(numbers)
                allowed.append(victim)
        return allowed

    @once_by("row")
    def _of(self, task: TaskView) -> tuple[int, ...]:
        """Return the budgets from which the eviction of a pod is deducted."""
        pod, budgets = task.pod, self.cluster.snapshot.budgets
        numbers: Iterable[int] = self._index.candidates(pod, {}) if self._may_protect(task) else ()
        return tuple(number for number in numbers if _selects(budgets[number], pod))

    def _may_protect(self, task: TaskView) -> bool:
        """Return whether the submitter of the job of a task may protect pods in its queue."""
        snapshot, job = self.cluster.snapshot, task.job
        if job is None or snapshot.jobs.queue[job.row] == NONE:
            return True
        submitter = snapshot.jobs.submitters[snapshot.jobs.submitter[job.row]]
        queue = int(snapshot.jobs.queue[job.row])
        return snapshot.queues.terms.rights.may_protect(queue, submitter, self.args.unpreemptable)


def _selects(budget: policy.PodDisruptionBudget, pod: core.Pod) -> bool:
    is_disrupted = pod.metadata.name in budget.status.disrupted_pods
    return not is_disrupted and matches(budget.spec.selector, pod.metadata.labels)
