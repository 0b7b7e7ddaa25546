"""What is allocated to the jobs of each queue, kept from snapshot to snapshot: only the jobs that changed are counted again."""

import numpy as np

from volcanopy.scheduler.model.resources import Index, Ints, Rows, sums_by
from volcanopy.scheduler.model.snapshot import NONE


class QueueSums:
    """The sums of the last snapshot, with the amounts that they are the sums of."""

    def __init__(self) -> None:
        self._owners: Index = np.empty(0, dtype=np.int32)
        self._amounts: Ints = np.empty((0, 0), dtype=np.int64)
        self._sums: Ints = np.empty((0, 0), dtype=np.int64)

    def updated(self, owners: Index, amounts: Ints, queues: int, changed: Rows | None) -> Ints:
        """(R, Q): the sums of the (R, J) amounts of jobs by their queue, the (J,) ``owners``; NONE for jobs without one.

        ``changed`` are the jobs whose amounts may differ from those of the last call; None for any.
        """
        same = self._amounts.shape == amounts.shape and self._sums.shape == (len(amounts), queues + 1)
        if same and changed is not None:
            before, after = self._owners[changed], owners[changed]
            np.subtract.at(self._sums.T, before, self._amounts.take(changed, axis=1).T)
            self._owners[changed], self._amounts[:, changed] = after, amounts.take(changed, axis=1)
            np.add.at(self._sums.T, after, self._amounts.take(changed, axis=1).T)
            # A queue that is added or removed changes the owner of other jobs.
            same = bool((self._owners == owners).all())
        if not same or changed is None:
            self._owners, self._amounts = owners.copy(), amounts.copy()
            # NONE is the last column.
            self._sums = sums_by(np.where(owners == NONE, queues, owners), amounts, queues + 1)
        sums = self._sums[:, :queues].copy()
        sums.setflags(write=False)
        return sums
