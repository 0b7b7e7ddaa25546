"""Sub-groups of the pods of a group, which are gangs themselves.

Each pod that a policy of its group captures carries a *mark*: the number of the policy and the pod's values of the
policy's label keys. Pods of one job with one mark are a sub-group. Marks are numbered once and kept as a column.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core
from volcanopy.scheduler.model.selectors import matches


class Mark(NamedTuple):
    """Which sub-group of its job a pod is in."""

    policy: int
    values: tuple[str, ...]

    @property
    def order(self) -> int:
        """The first value as a number, 0 if it is none."""
        first = self.values[0]
        return int(first) if first.isascii() and first.isdigit() else 0


def mark_of(policies: Sequence[core.SubGroupPolicy], labels: Mapping[str, str]) -> Mark | None:
    """The mark of a pod with these labels, None if no policy captures it; the first that does decides."""
    for number, policy in enumerate(policies):
        values = tuple(labels.get(key, "") for key in policy.match_label_keys)
        selected = policy.label_selector is None or matches(policy.label_selector, labels)
        if values and all(values) and selected:
            return Mark(number, values)
    return None


class Marks:
    """The numbers of the marks that there are; they are never taken back."""

    def __init__(self) -> None:
        self.all: dict[Mark, int] = {}
        """The number of each, in the order of the numbers."""

    def of(self, group: core.PodGroup | None, pod: core.Pod) -> int:
        """The number of the mark that a pod carries in its group; -1 if no policy captures it."""
        mark = mark_of(_policies(group), pod.metadata.labels)
        return -1 if mark is None else self.all.setdefault(mark, len(self.all))

    def renew(
        self, tasks: Mapping[str, NDArray[Any]], job: int, before: core.PodGroup | None, now: core.PodGroup | None
    ) -> list[int]:
        """Mark the tasks of a job again if its group divides them otherwise than before; return their rows.

        ``tasks`` are columns.
        """
        if _policies(before) == _policies(now):
            return []
        rows: list[int] = np.flatnonzero(tasks["job"] == job).tolist()
        for row in rows:
            tasks["mark"][row] = self.of(now, tasks["pods"][row])
        return rows


def _policies(group: core.PodGroup | None) -> tuple[core.SubGroupPolicy, ...]:
    return () if group is None else group.spec.sub_group_policy
