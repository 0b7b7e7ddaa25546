"""Sums over the jobs of each queue, kept from snapshot to snapshot: only the jobs that changed are counted again."""

from collections.abc import Callable

import numpy as np

from volcanopy.scheduler.model.resources import Index, Ints, Rows, sums_by


class QueueSums:
    """The sums of the last snapshot, with the amounts that they are the sums of."""

    def __init__(self) -> None:
        self._owners: Index = np.empty(0, dtype=np.int32)
        self._amounts: Ints = np.empty((0, 0), dtype=np.int64)
        self._sums: Ints = np.empty((0, 0), dtype=np.int64)

    def updated(
        self, owners: Index, amounts_of: Callable[[Rows | slice], Ints], queues: int, changed: Rows | None
    ) -> Ints:
        """(K, Q): the sums of the amounts of jobs by their queue, the (J,) ``owners``; NONE for jobs without one.

        ``amounts_of`` returns the (K, M) amounts of some jobs, in a new array. ``changed`` are the jobs whose amounts may differ
        from those of the last call; None for any.
        """
        amounts, columns = amounts_of(slice(None) if changed is None else changed), queues + 1
        same = self._amounts.shape == (len(amounts), len(owners)) and self._sums.shape[1] == columns
        if same and changed is not None:
            counted, after = self._amounts.take(changed, axis=1), owners[changed]
            moved = np.concatenate((self._owners[changed], after)) % columns  # NONE is the last column
            self._sums += sums_by(moved, np.concatenate((-counted, amounts), axis=1), columns)
            self._owners[changed], self._amounts[:, changed] = after, amounts
            # A queue that is added or removed changes the owner of other jobs.
            same = bool((self._owners == owners).all())
        if not same or changed is None:
            self._owners, self._amounts = owners.copy(), amounts if changed is None else amounts_of(slice(None))
            self._sums = sums_by(owners % columns, self._amounts, columns)
        sums = self._sums[:, :queues].copy()
        sums.setflags(write=False)
        return sums
