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
    request, used, room = (
        tasks.request.cpu_and_memory,
        nodes.used.cpu_and_memory[:, None],
        nodes.allocatable.cpu_and_memory[:, None],
    )
    exists: Mask | None = None
    with_gpus, all_balanced = tasks.once(balanced_allocation, _balanced_resources)
    gpus = tasks.request[GPU] if with_gpus else np.empty(0, dtype=np.int64)
    if with_gpus:
        request = np.concatenate((request, gpus[None]))
        used = np.concatenate((used, nodes.used[GPU][None, None]))
        room = np.concatenate((room, nodes.allocatable[GPU][None, None]))
        exists = (room > 0) & (gpus > 0)
        exists[:2] = room[:2] > 0
    elif not _all_have_both(nodes):
        exists = room > 0
    requested = used + request
    fractions = np.empty((2, *requested.shape))
    fractions[0], fractions[1] = used, requested
    fractions /= room if exists is None else np.maximum(room, 1)
    before, after = _evenness(np.minimum(fractions, 1.0, out=fractions), exists)
    score = np.subtract(after, before, out=after)
    score *= 0.5
    np.floor(score, out=score)
    score += 75.0
    return score if all_balanced else np.where(request.any(axis=0), score, 0.0)


def _balanced_resources(tasks: TasksView) -> tuple[bool, bool]:
    """Whether any task requests GPUs, and whether each requests cpu or memory."""
    return bool(tasks.request[GPU].any()), bool(tasks.request.values[:2].any(axis=0).all())


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
    """(X, S, N): 100 times one minus the standard deviation of the (X, K, S, N) allocated fractions, in whole numbers.

    ``exists`` (K, S, N) are those that count; None for cpu and memory on every node.
    """
    if exists is None:
        deviation = fractions[:, 0] - fractions[:, 1]
        np.abs(deviation, out=deviation)
        deviation *= 0.5
    else:
        fractions = np.where(exists, fractions, 0.0)
        count = np.maximum(exists.sum(axis=0), 1)
        mean = fractions.sum(axis=1, keepdims=True) / count
        deviation = np.sqrt(np.where(exists, np.square(fractions - mean), 0.0).sum(axis=1) / count)
        # Of two, half the difference: the same number, but rounded as kube-scheduler rounds it.
        half = (fractions.max(axis=1) - np.where(exists, fractions, 1.0).min(axis=1)) / 2
        deviation = np.where(count == 2, half, np.where(count < 2, 0.0, deviation))
    evenness = np.subtract(1.0, deviation, out=deviation)
    evenness *= 100.0
    return np.floor(evenness, out=evenness)
