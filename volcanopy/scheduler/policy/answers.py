"""What hooks must return, and the error where one does not: it names the plugin and the hook.

1. :func:`guarded` checks each combined result with a test that costs next to nothing (:func:`_acceptance`).
2. Only where that fails, or the combination raises, the plugins are asked again, one after another, and each result is
   compared in full with the annotation of the hook and the shape of its arguments (:func:`fault`).

The test kit of plugins (:mod:`volcanopy.plugin.check`) compares every result in full.
"""

import math
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from volcanopy.scheduler.policy.combine import Method
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.hook_table import HOOKS, declaration
from volcanopy.scheduler.policy.plugin import Key, NodeRejection


def guarded(name: str, combined: Method, methods: Sequence[Method], *more: Any) -> Method:
    """Return a combined hook that raises PluginError for an invalid result of one of these methods.

    ``more`` are the last arguments of the methods, which the combined hook adds.
    """
    accepts = _acceptance(name)

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
    annotation = _annotation(name)
    if HOOKS[name].rule == "block total":
        return _block_fault(asked, result)
    if HOOKS[name].rule == "columns":
        return _column_fault(len(asked[-1]), result)
    if HOOKS[name].rule == "rejections":
        return _rejections_fault(len(asked[-1]), result)
    if annotation == Key:
        return (
            ""
            if _is_key(result)
            else f"returned {_short(result)}, not a number, a text or a tuple of these without NaN"
        )
    if not _conforms(result, annotation):
        return f"returned {_short(result)}, not {_shown(annotation)}"
    if HOOKS[name].rule in {"victims", "union"} and result is not None:
        return _subset_fault(asked[_CANDIDATES[HOOKS[name].rule]], result)
    return ""


@cache
def _annotation(name: str) -> Any:
    return get_type_hints(declaration(name))["return"]


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


def _column_fault(count: int, result: Any) -> str:
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


def _rejections_fault(count: int, result: Any) -> str:
    if not isinstance(result, Iterable):
        return f"returned {_short(result)}, not rejections"
    return next(filter(None, (_rejection_fault(count, rejection) for rejection in result)), "")


def _rejection_fault(count: int, rejection: Any) -> str:
    if not isinstance(rejection, NodeRejection):
        return f"returned {_short(rejection)} among the rejections, not a NodeRejection"
    mask = rejection.nodes
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
        shown = f"the shape {mask.shape} and the type {mask.dtype}" if isinstance(mask, np.ndarray) else _short(mask)
        return f"returned a mask with {shown} for {count} nodes, which must be ({count},) and bool"
    return "" if isinstance(rejection.reason, str) else f"returned the reason {_short(rejection.reason)}, not a text"


_CANDIDATES = {"victims": 1, "union": 0}
"""The argument that has the candidates."""


def _subset_fault(candidates: Any, result: Any) -> str:
    rows = {int(getattr(candidate, "row", candidate)) for candidate in candidates}
    extra = [item for item in result if int(getattr(item, "row", item)) not in rows]
    return f"returned {_short(extra[0])}, which is not among the candidates" if extra else ""


def _is_key(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    if isinstance(value, float | np.floating):
        return not math.isnan(value)
    return isinstance(value, int | str | np.integer | np.bool_)


def _conforms(value: Any, annotation: Any) -> bool:
    """Return whether a value has a type, with the types of the elements of containers."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return any(_conforms(value, part) for part in parts)
    if annotation in {None, type(None)}:
        return value is None
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if annotation is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, _kind(parts))
    if origin is tuple:
        return isinstance(value, tuple) and all(_conforms(item, parts[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _conforms(key, parts[0]) and _conforms(item, parts[1]) for key, item in value.items()
        )
    if isinstance(origin, type) and issubclass(origin, Collection):
        return isinstance(value, origin) and all(_conforms(item, parts[0]) for item in value)
    return isinstance(value, tuple(_runtime_types(annotation))) if isinstance(annotation, type) else True


def _kind(parts: tuple[Any, ...]) -> Any:
    """Return the kind of numbers of an annotated array."""
    kinds = get_args(parts[-1]) or (np.generic,)
    return np.integer if issubclass(kinds[0], np.integer) else kinds[0]


def _shown(annotation: Any) -> str:
    """Return an annotation as an author writes it, without modules."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return " or ".join(map(_shown, parts))
    if origin is np.ndarray:
        return f"an array of {_kind(parts).__name__}"
    name = "None" if annotation in {None, type(None)} else getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(_shown(part) for part in parts if part is not ...)}]" if parts else name


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"an object of type {type(value).__name__}"


Acceptance = Callable[[Sequence[Any], Any], bool]
"""Whether a combined result may be valid, from the arguments and the result."""


def _is_finite(_asked: Sequence[Any], result: Any) -> bool:
    """Return whether all numbers are finite. A dot product would be faster, but wakes the threads of the BLAS library."""
    return math.isfinite(np.add.reduce(result, axis=None))


def _are_columns(asked: Sequence[Any], result: Any) -> bool:
    shape = (len(asked[0]),)
    for column in result:  # noqa: SIM110  # a generator costs more
        if column.shape != shape or (column.dtype.kind == "f" and math.isnan(np.add.reduce(column))):
            return False
    return True


def _are_masks(asked: Sequence[Any], result: Any) -> bool:
    shape = (len(asked[1]),)
    for rejection in result:  # noqa: SIM110  # a generator costs more
        if rejection.nodes.shape != shape:
            return False
    return True


def _are_keys(_asked: Sequence[Any], result: Any) -> bool:
    for key in result:  # noqa: SIM110  # a generator costs more
        if key is None or key != key:  # noqa: PLR0124  # NaN
            return False
    return True


def _are_candidates(asked: Sequence[Any], result: Any) -> bool:
    """Return whether victims are among the candidates: of others the search for victims would not end."""
    rows = {candidate.row for candidate in asked[1]}
    for victim in result:  # noqa: SIM110  # a generator costs more
        if victim.row not in rows:
            return False
    return True


_BY_RULE: Mapping[str, Acceptance] = {
    "block total": _is_finite,
    "columns": _are_columns,
    "victims": _are_candidates,
    "rejections": _are_masks,
    "lexicographic": _are_keys,
}
_SINGLE_RESULTS = {"first", "vote by moment"}
"""The rules whose combined result has the type of the result of one plugin."""


@cache
def _acceptance(name: str) -> Acceptance:
    """Return a test of a combined result that is cheap enough for each call."""
    rule = HOOKS[name].rule
    if rule in _BY_RULE:
        return _BY_RULE[rule]
    if rule in _SINGLE_RESULTS:
        types_of_result = tuple(_runtime_types(_annotation(name)))
        return lambda _asked, result: isinstance(result, types_of_result)
    return lambda *_: True


def _runtime_types(annotation: Any) -> Iterator[type]:
    origin = get_origin(annotation)
    if origin in {Union, types.UnionType}:
        for part in get_args(annotation):
            yield from _runtime_types(part)
    elif annotation is bool:
        yield from (bool, np.bool_)
    elif annotation is int:
        yield from (int, np.integer)
    elif annotation is None:
        yield type(None)
    else:
        kind = origin or annotation
        yield object if getattr(kind, "_is_protocol", False) and kind.__module__.startswith("volcanopy.") else kind
