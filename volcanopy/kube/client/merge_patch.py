"""The difference of two objects, as a JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What a server must merge into ``before`` to have ``after``. Empty when nothing differs.

    A list that differs in any place is replaced whole: a merge patch knows no other way.
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
