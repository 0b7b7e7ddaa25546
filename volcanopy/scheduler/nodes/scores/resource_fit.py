"""kube-scheduler's scores by resources: how full a node is, and how balanced, with a task on it.

All are blocks of S tasks on N nodes. The results are those of kube-scheduler's integer arithmetic. Cpu and memory are the
first two resources of every axis, so both are computed together in (2, S, N) arrays.
"""

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask

GPU = "nvidia.com/gpu"  # The one device that kube-scheduler balances beside cpu and memory.


def least_allocated(tasks: TasksView, nodes: NodesView) -> Ints:
    """(S, N): 0 to 100, the more cpu and memory are idle with the task on the node."""
    room = nodes.allocatable.cpu_and_memory[:, None]
    idle = (room - nodes.nonzero[:, None]) - tasks.nonzero
    return _mean_percentage(np.maximum(idle, 0, out=idle), room, _all_have_both(nodes))


def most_allocated(tasks: TasksView, nodes: NodesView) -> Ints:
    """(S, N): 0 to 100, the more cpu and memory are allocated with the task on the node."""
    room = nodes.allocatable.cpu_and_memory[:, None]
    requested = nodes.nonzero[:, None] + tasks.nonzero
    return _mean_percentage(np.minimum(requested, room, out=requested), room, _all_have_both(nodes))


def balanced_allocation(tasks: TasksView, nodes: NodesView) -> Floats:
    """(S, N): 50 to 100, above 75 where the task evens out the allocated fractions of resources, below where it does not.

    0 for tasks that request none of cpu, memory and GPUs.
    """
    requests, with_gpus, without, unscored = tasks.once(balanced_allocation, _compared)
    used, room = nodes.used.cpu_and_memory[:, None], nodes.allocatable.cpu_and_memory[:, None]
    exists: Mask | None = None
    if with_gpus is not None:
        used = np.concatenate((used, nodes.used[GPU][None, None]))
        room = np.concatenate((room, nodes.allocatable[GPU][None, None]))
        exists = (room > 0) & with_gpus
    elif not _all_have_both(nodes):
        exists = room > 0
    fractions: Floats = (used + requests) / (room if exists is None else np.maximum(room, 1))
    evenness = _evenness(np.minimum(fractions, 1.0, out=fractions), exists)
    score = evenness[without:] - evenness[:without]
    score *= 0.5
    np.floor(score, out=score)
    score += 75.0
    return score if unscored is None else np.where(unscored, 0.0, score)


def _compared(tasks: TasksView) -> tuple[Ints, Mask | None, int, Mask | None]:
    """Return what is compared: (K, W + S, 1) amounts, W times nothing and then the requests of the tasks.

    Besides which of the resources count for each, None without GPUs; W; and (S, 1) the tasks without a score, None for none.
    """
    request, gpus = tasks.request.cpu_and_memory, tasks.request[GPU]
    with_gpus: Mask | None = None
    without = 1
    if gpus.any():
        request, without = np.concatenate((request, gpus[None])), len(tasks)
        counts = np.concatenate((np.ones((2, without, 1), dtype=np.bool_), gpus[None] > 0))
        with_gpus = np.concatenate((counts, counts), axis=1)
    nothing = np.zeros((len(request), without, 1), dtype=np.int64)
    scored: Mask = np.logical_or.reduce(request)
    return np.concatenate((nothing, request), axis=1), with_gpus, without, None if scored.all() else ~scored


def _all_have_both(nodes: NodesView) -> bool:
    """Whether every node has cpu and memory."""
    return nodes.all_have(0) and nodes.all_have(1)


def _mean_percentage(part: Ints, room: Ints, every: bool) -> Ints:
    """(S, N): the mean percentage of cpu and memory, in whole numbers; a resource that the node lacks does not count.

    ``every``: no node lacks one.
    """
    percentages = part * 100
    percentages //= room if every else np.maximum(room, 1)
    mean: Ints = percentages[0] + percentages[1]
    if every:
        mean >>= 1
    else:
        mean //= np.maximum((room > 0).sum(axis=0), 1)
    return mean


def _evenness(fractions: Floats, exists: Mask | None) -> Floats:
    """(X, N): 100 times one minus the standard deviation of the (K, X, N) allocated fractions, in whole numbers.

    ``exists`` (K, X, N) are those that count; None for cpu and memory on every node.
    """
    if exists is None:
        deviation = fractions[0] - fractions[1]
        np.abs(deviation, out=deviation)
        deviation *= 0.5
    else:
        fractions = np.where(exists, fractions, 0.0)
        count = np.maximum(exists.sum(axis=0), 1)
        mean = fractions.sum(axis=0) / count
        deviation = np.sqrt(np.where(exists, np.square(fractions - mean), 0.0).sum(axis=0) / count)
        # Of two, half the difference: the same number, but rounded as kube-scheduler rounds it.
        half = (fractions.max(axis=0) - np.where(exists, fractions, 1.0).min(axis=0)) / 2
        deviation = np.where(count == 2, half, np.where(count < 2, 0.0, deviation))
    evenness = np.subtract(1.0, deviation, out=deviation)
    evenness *= 100.0
    return np.floor(evenness, out=evenness)
