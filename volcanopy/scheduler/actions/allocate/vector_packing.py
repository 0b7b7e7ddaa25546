"""Vector packing: nodes for tasks of several resources, by amounts alone.

1. Take the largest tasks first: largest in the sum of their resources, each as a fraction of the largest node.
2. Place a task on the node where it leaves least, or, if ``balanced``, where the resources that it leaves are most even.
3. If it fits nowhere, put it in the place of another task: of those in whose place it fits the one that was displaced
   least often, of equals the one where least is left. That one is placed next, in the same way.
4. Give up when no task can be displaced or after PACKING_STEPS times the number of tasks.
"""

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows


def packing(free: Ints, requests: Ints, feasible: Mask, scale: Ints, *, balanced: bool) -> tuple[Rows | None, int]:
    """Return the node of each of T tasks, None if none was found for all; and the number of steps.

    ``free`` (R, N) and ``requests`` (R, T) are amounts, ``feasible`` (T, N) the nodes of each task, ``scale`` (R,) the
    amounts that count as one.
    """
    count = requests.shape[1]
    left, node_of = free.copy(), np.full(count, -1, dtype=np.intp)
    displaced = np.zeros(count, dtype=np.int64)
    size: Floats = (requests / scale[:, None]).sum(axis=0)
    waiting = np.argsort(size, kind="stable").tolist()
    steps = 0
    while waiting and steps < defaults.PACKING_STEPS * count:
        steps += 1
        task = waiting.pop()
        rest = left - requests[:, [task]]
        nodes = np.flatnonzero(feasible[task] & (rest >= 0).all(axis=0))
        if len(nodes):
            node = nodes[np.argmin(_waste(rest[:, nodes] / scale[:, None], balanced=balanced))]
        else:
            placed = np.flatnonzero(node_of >= 0)
            after = left[:, node_of[placed]] + requests[:, placed] - requests[:, [task]]
            suits = feasible[task, node_of[placed]] & (after >= 0).all(axis=0)
            if not suits.any():
                return None, steps
            placed, wasted = placed[suits], (after[:, suits] / scale[:, None]).sum(axis=0)
            other = placed[np.lexsort((wasted, displaced[placed]))[0]]
            node, node_of[other] = node_of[other], -1
            left[:, node] += requests[:, other]
            displaced[[other, task]] += 1
            waiting.append(int(other))
        node_of[task] = node
        left[:, node] -= requests[:, task]
    return (None if waiting else node_of), steps


def _waste(rest: Floats, *, balanced: bool) -> Floats:
    """(N,): how unwelcome the rest of each node is."""
    total: Floats = rest.sum(axis=0)
    return np.abs(rest - rest.mean(axis=0)).sum(axis=0) + defaults.PACKING_EVENNESS * total if balanced else total
