"""What hooks must return, and the error where one does not: it names the plugin and the hook.

1. :func:`guarded` checks each combined result with a test that costs next to nothing (``accepts`` of the hook).
2. Only where that fails, or the combination raises, the plugins are asked again, one after another, and each result is
   checked in full (:func:`fault`).

The test kit of plugins (:mod:`volcanopy.plugin.check`) checks every result in full.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.combine import Method
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import NodeRejection, Rejection, Vote

_KEY = "a number, a text or a tuple of these without NaN"


def guarded(name: str, combined: Method, methods: Sequence[Method], *more: Any) -> Method:
    """Return a combined hook that raises PluginError for an invalid result of one of these methods.

    ``more`` are the last arguments of the methods, which the combined hook adds.
    """
    accepts = _CONTRACTS[name].accepts

    def ask(*asked: Any) -> Any:
        try:
            result = combined(*asked)
            if accepts(asked, result):
                return result
        except Exception as error:
            _raise_fault(name, methods, (*asked, *more))
            raise error from None
        _raise_fault(name, methods, (*asked, *more))
        return result

    return ask


def _raise_fault(name: str, methods: Sequence[Method], asked: Sequence[Any]) -> None:
    """Raise PluginError for the first method with an invalid result; an exception of the method itself is its cause."""
    for method in methods:
        where = f"plugin {getattr(getattr(method, '__self__', None), 'name', '?')!r}: hook {name!r}"
        try:
            text = fault(name, asked, method(*asked))
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(f"{where} failed: {type(error).__name__}: {error}") from error
        if text:
            raise PluginError(f"{where} {text}")


def fault(name: str, asked: Sequence[Any], result: Any) -> str:
    """Return what is wrong with the result of one plugin, as the end of a sentence; empty if nothing is."""
    return _CONTRACTS[name].fault(asked, result)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"an object of type {type(value).__name__}"


# Scores, sort keys and rejections of nodes


def _block_fault(asked: Sequence[Any], result: Any) -> str:
    shape = (len(asked[0]), len(asked[1]))
    block = np.asarray(result)
    if block.dtype.kind not in "biuf":
        return f"returned {_short(result)}, not an array of numbers"
    try:
        fits = np.broadcast_shapes(block.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        return f"returned the shape {block.shape} for {shape[0]} tasks and {shape[1]} nodes, which must broadcast to {shape}"
    return _invalid_number(block, np.isfinite(block))


def _is_finite(_asked: Sequence[Any], result: Any) -> bool:
    """Return whether all numbers are finite. A dot product would be faster, but wakes the threads of the BLAS library."""
    return math.isfinite(np.add.reduce(result, axis=None))


def _column_fault(asked: Sequence[Any], result: Any) -> str:
    count = len(asked[-1])
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
        return f"returned {_short(result)}, not an array of numbers"
    if result.shape != (count,):
        return f"returned the shape {result.shape} for {count} rows, which must be ({count},)"
    return _invalid_number(result, ~np.isnan(result))


def _are_columns(asked: Sequence[Any], result: Any) -> bool:
    shape = (len(asked[0]),)
    for column in result:  # noqa: SIM110  # a generator costs more
        if column.shape != shape or (column.dtype.kind == "f" and math.isnan(np.add.reduce(column))):
            return False
    return True


def _invalid_number(values: Any, is_valid: Any) -> str:
    """Return which number is the first that is not valid; empty if all are."""
    if is_valid.all():
        return ""
    index = tuple(int(number) for number in np.argwhere(~is_valid)[0])
    where = f" at {index[0] if len(index) == 1 else index}" if index else ""
    return f"returned {values[index]}{where}, which cannot be compared"


def _key_fault(_asked: Sequence[Any], result: Any) -> str:
    return "" if _is_key(result) else f"returned {_short(result)}, not {_KEY}"


def _is_key(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    if isinstance(value, float | np.floating):
        return not math.isnan(value)
    return isinstance(value, int | str | np.integer | np.bool_)


def _are_keys(_asked: Sequence[Any], result: Any) -> bool:
    for key in result:  # noqa: SIM110  # a generator costs more
        if key is None or key != key:  # noqa: PLR0124  # NaN
            return False
    return True


def _rejections_fault(asked: Sequence[Any], result: Any) -> str:
    if not isinstance(result, Iterable):
        return f"returned {_short(result)}, not rejections"
    return next(filter(None, (_rejection_fault(len(asked[-1]), rejection) for rejection in result)), "")


def _rejection_fault(count: int, rejection: Any) -> str:
    if not isinstance(rejection, NodeRejection):
        return f"returned {_short(rejection)} among the rejections, not a NodeRejection"
    mask = rejection.nodes
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
        shown = f"the shape {mask.shape} and the type {mask.dtype}" if isinstance(mask, np.ndarray) else _short(mask)
        return f"returned a mask with {shown} for {count} nodes, which must be ({count},) and bool"
    return "" if isinstance(rejection.reason, str) else f"returned the reason {_short(rejection.reason)}, not a text"


def _are_masks(asked: Sequence[Any], result: Any) -> bool:
    shape = (len(asked[1]),)
    for rejection in result:  # noqa: SIM110  # a generator costs more
        if rejection.nodes.shape != shape:
            return False
    return True


# Victims, votes and annotations


def _victims_fault(may_abstain: bool, asked: Sequence[Any], result: Any) -> str:
    if result is None and may_abstain:
        return ""
    if not isinstance(result, Sequence) or not all(isinstance(item, TaskView) for item in result):
        return f"returned {_short(result)}, not a sequence of tasks{' or None' if may_abstain else ''}"
    return _extra_fault(asked[1], result)


def _rows_fault(asked: Sequence[Any], result: Any) -> str:
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu":
        return f"returned {_short(result)}, not an array of integer"
    return _extra_fault(asked[0], result.tolist())


def _extra_fault(candidates: Iterable[Any], result: Iterable[Any]) -> str:
    rows = {int(getattr(candidate, "row", candidate)) for candidate in candidates}
    extra = next((item for item in result if getattr(item, "row", item) not in rows), None)
    return "" if extra is None else f"returned {_short(extra)}, which is not among the candidates"


def _are_candidates(asked: Sequence[Any], result: Any) -> bool:
    """Return whether victims are among the candidates: of others the search for victims would not end."""
    rows = {candidate.row for candidate in asked[1]}
    for victim in result:  # noqa: SIM110  # a generator costs more
        if victim.row not in rows:
            return False
    return True


def _type_fault(kind: Any, shown: str, _asked: Sequence[Any], result: Any) -> str:
    return "" if isinstance(result, kind) else f"returned {_short(result)}, not {shown}"


def _annotations_fault(_asked: Sequence[Any], result: Any) -> str:
    is_valid = isinstance(result, Mapping) and all(isinstance(text, str) for pair in result.items() for text in pair)
    return "" if is_valid else f"returned {_short(result)}, not dict[str, str]"


def _anything(_asked: Sequence[Any], _result: Any) -> bool:
    return True


class _Contract(NamedTuple):
    """What is wrong with the result of one plugin, and whether a combined result may be valid, from arguments and result."""

    fault: Callable[[Sequence[Any], Any], str]
    accepts: Callable[[Sequence[Any], Any], bool]


_CONTRACTS: Mapping[str, _Contract] = {
    "score": _Contract(_block_fault, _is_finite),
    "jobs": _Contract(_column_fault, _are_columns),
    "tasks": _Contract(_column_fault, _are_columns),
    "queue": _Contract(_key_fault, _are_keys),
    "reject": _Contract(_rejections_fault, _are_masks),
    "allows": _Contract(partial(_victims_fault, True), _are_candidates),
    "unprotected": _Contract(partial(_victims_fault, False), _are_candidates),
    "evicts": _Contract(_rows_fault, _anything),
    "verdict": _Contract(partial(_type_fault, Vote, "Vote"), lambda _, result: isinstance(result, Vote)),
    "queue_verdict": _Contract(
        partial(_type_fault, Rejection | None, "Rejection or None"),
        lambda _, result: result is None or isinstance(result, Rejection),
    ),
    "annotate": _Contract(_annotations_fault, _anything),
}
"""By hook."""
