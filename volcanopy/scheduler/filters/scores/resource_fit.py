"""kube-scheduler's scores by resources: how full a node is, and how balanced, with a task on it.

All are blocks of S tasks on N nodes. The results are those of kube-scheduler's integer arithmetic. Cpu and memory are the
first two resources of every axis, so both are computed together in (2, S, N) arrays.
"""

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask

GPU = "nvidia.com/gpu"
"""The one device that kube-scheduler balances beside cpu and memory."""


def least_allocated(tasks: TasksView, nodes: NodesView) -> Ints:
    """(S, N): 0 to 100, the more cpu and memory are idle with the task on the node."""
    room = nodes.allocatable.values[:2, None]
    return _mean_percentage(np.maximum(room - _requested(tasks, nodes), 0), room)


def most_allocated(tasks: TasksView, nodes: NodesView) -> Ints:
    """(S, N): 0 to 100, the more cpu and memory are allocated with the task on the node."""
    room = nodes.allocatable.values[:2, None]
    return _mean_percentage(np.minimum(_requested(tasks, nodes), room), room)


def balanced_allocation(tasks: TasksView, nodes: NodesView) -> Floats:
    """(S, N): 50 to 100, above 75 where the task evens out the allocated fractions of resources, below where it does not.

    0 for tasks that request none of cpu, memory and GPUs.
    """
    request, used, room = tasks.request.values[:2], nodes.used.values[:2, None], nodes.allocatable.values[:2, None]
    exists: Mask | None = None
    gpus = tasks.request[GPU]
    if gpus.any():
        request = np.concatenate((request, gpus[None]))
        used, room = (
            np.concatenate((cpu_memory, devices[None, None]))
            for cpu_memory, devices in ((used, nodes.used[GPU]), (room, nodes.allocatable[GPU]))
        )
        exists = np.broadcast_to(room > 0, (3, len(tasks), len(nodes))).copy()
        exists[2] &= gpus > 0
    elif not room.all():
        exists = room > 0
    score: Floats = np.floor((_evenness(used + request, room, exists) - _evenness(used, room, exists)) * 0.5) + 75.0
    return score if request.any(axis=0).all() else np.where(request.any(axis=0), score, 0.0)


def _requested(tasks: TasksView, nodes: NodesView) -> Ints:
    """(2, S, N): cpu and memory requested on the node with the task there."""
    return nodes.nonzero[:, None] + tasks.nonzero


def _mean_percentage(part: Ints, room: Ints) -> Ints:
    """(S, N): the mean percentage of cpu and memory, in whole numbers; a resource that the node lacks does not count."""
    percentage = part * 100 // np.maximum(room, 1)
    mean: Ints = (percentage[0] + percentage[1]) // np.maximum((room > 0).sum(axis=0), 1)
    return mean


def _evenness(used: Ints, room: Ints, exists: Mask | None) -> Floats:
    """100 times one minus the standard deviation of the allocated fractions, in whole numbers.

    ``used`` and ``room`` are (K, S, N) for K resources, ``exists`` those that count; None for cpu and memory on every node.
    """
    if exists is None:
        cpu, memory = np.minimum(used / room, 1.0)
        return _percentage(np.abs(cpu - memory) / 2)
    fractions = np.where(exists, np.minimum(used / np.maximum(room, 1), 1.0), 0.0)
    count = np.maximum(exists.sum(axis=0), 1)
    deviation = np.sqrt(np.where(exists, np.square(fractions - fractions.sum(axis=0) / count), 0.0).sum(axis=0) / count)
    # Of two, half the difference: the same number, but rounded as kube-scheduler rounds it.
    half = (fractions.max(axis=0) - np.where(exists, fractions, 1.0).min(axis=0)) / 2
    return _percentage(np.where(count == 2, half, np.where(count < 2, 0.0, deviation)))


def _percentage(deviation: Floats) -> Floats:
    evenness: Floats = np.floor((1.0 - deviation) * 100.0)
    return evenness
