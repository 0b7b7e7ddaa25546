"""JSON merge patches (RFC 7386) from the difference of two objects."""

from typing import Any


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the patch from ``before`` to ``after``, empty when they are equal.

    A list that differs is replaced whole, as in every merge patch.
    """
    patch: dict[str, Any] = {name: None for name in before if after.get(name) is None and before[name] is not None}
    for name, value in after.items():
        old = before.get(name)
        if value is None or value == old:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[name] = inner
        else:
            patch[name] = value
    return patch
