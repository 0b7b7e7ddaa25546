"""How fast this machine is just now: the unit in which timings are compared.

A shared machine is twice as fast in one minute as in the next. A limit is therefore a ratio: seconds of a case divided by
seconds of this fixed piece of work, both measured as processor time in the same minute.
"""

import time

import numpy as np


def unit() -> float:
    """Processor seconds that the fixed work takes: half plain Python, half small numpy operations."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        total = 0
        for number in range(400_000):
            total += number & 7
        column = np.arange(1000, dtype=np.float64)
        for _ in range(10_000):
            column = np.where(column > 0.5, column, column + 1.0)
        best = min(best, time.process_time() - start)
        assert total > column.size  # an interpreter may optimise away unused results
    return best
