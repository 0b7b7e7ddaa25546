"""What hooks must return, and the error where one does not: it names the plugin and the hook.

:func:`checked` compares every result of a plugin with the contract. A session checks the plugins that are not volcanopy's own,
and the test kit of plugins (:mod:`volcanopy_testing.check`) checks all.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.combine import Method
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import NodeRejection, Rejection, Vote


def checked(name: str, plugin: Any) -> Method:
    """Return the method of a plugin for a hook, with PluginError for an exception and for an invalid result."""
    method, fault = getattr(plugin, name), _FAULTS[name]
    where = f"plugin {plugin.name!r}: hook {name!r}"

    def ask(*asked: Any) -> Any:
        try:
            result = method(*asked)
            if name == "reject" and isinstance(result, Iterable):  # which may be a generator
                result = list(result)
            text = fault(asked, result)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(f"{where} failed: {type(error).__name__}: {error}") from error
        if text:
            raise PluginError(f"{where} {text}")
        return result

    return ask


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


def _column_fault(asked: Sequence[Any], result: Any) -> str:
    count = len(asked[-1])
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
        return f"returned {_short(result)}, not an array of numbers"
    if result.shape != (count,):
        return f"returned the shape {result.shape} for {count} rows, which must be ({count},)"
    return _invalid_number(result, ~np.isnan(result))


def _invalid_number(values: Any, is_valid: Any) -> str:
    """Return which number is the first that is not valid; empty if all are."""
    if is_valid.all():
        return ""
    index = tuple(int(number) for number in np.argwhere(~is_valid)[0])
    where = f" at {index[0] if len(index) == 1 else index}" if index else ""
    return f"returned {values[index]}{where}, which cannot be compared"


def _is_key(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    if isinstance(value, float | np.floating):
        return not math.isnan(value)
    return isinstance(value, int | str | np.integer | np.bool_)


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


def _value_fault(is_valid: Callable[[Any], bool], shown: str, _asked: Sequence[Any], result: Any) -> str:
    return "" if is_valid(result) else f"returned {_short(result)}, not {shown}"


def _are_annotations(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )


_FAULTS: Mapping[str, Callable[[Sequence[Any], Any], str]] = {
    "score": _block_fault,
    "jobs": _column_fault,
    "tasks": _column_fault,
    "queue": partial(_value_fault, _is_key, "a number, a text or a tuple of these without NaN"),
    "reject": _rejections_fault,
    "allows": partial(_victims_fault, True),
    "unprotected": partial(_victims_fault, False),
    "evicts": _rows_fault,
    "verdict": partial(_value_fault, lambda value: isinstance(value, Vote), "Vote"),
    "queue_verdict": partial(_value_fault, lambda value: isinstance(value, Rejection | None), "Rejection or None"),
    "annotate": partial(_value_fault, _are_annotations, "dict[str, str]"),
}
"""By hook: what is wrong with the result of one plugin, as the end of a sentence; empty if nothing is."""
