"""Columns of values that follow from each pod alone, kept across cycles: only new and changed pods are looked at."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core
from volcanopy.scheduler.model.resources import Floats, Ints


class _Known(NamedTuple):
    """The values of a cycle before."""

    pods: NDArray[np.object_]
    """The pods, which are kept: the identity of one that is gone could be that of another."""
    identities: Ints
    values: Floats


def of_each_pod(
    lasting: dict[Any, Any],
    kind: str,
    pods: NDArray[np.object_],
    absent: Sequence[float],
    compute: Callable[[core.Pod], Sequence[float]],
) -> Floats:
    """(T, C): the C values of each pod, ``absent`` in rows without one; read-only.

    ``lasting`` is :attr:`volcanopy.scheduler.model.snapshot.NodeTraits.lasting`; ``kind`` names what is computed.
    """
    every = pods.tolist()
    identities = np.fromiter(map(id, every), dtype=np.int64, count=len(every))
    known: _Known | None = lasting.get(kind)
    values = np.tile(np.array(absent, dtype=np.float64), (len(every), 1))
    changed = np.ones(len(every), dtype=np.bool_)
    if known is not None:
        both = min(len(every), len(known.identities))
        values[:both] = known.values[:both]
        changed[:both] = identities[:both] != known.identities[:both]
    for row in np.flatnonzero(changed).tolist():
        values[row] = absent if every[row] is None else compute(every[row])
    values.setflags(write=False)
    lasting[kind] = _Known(pods, identities, values)
    return values
