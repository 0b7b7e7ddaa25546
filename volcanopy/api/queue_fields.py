"""The fields of a queue that only some plugins of the scheduler read, and its reported credits."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

READERS: Mapping[str, tuple[str, ...]] = {
    "weight": ("proportion", "drf"),
    "deserved": ("capacity",),
    "guarantee": ("capacity", "proportion"),
    "capability": ("capacity", "proportion"),
    "borrowingLimit": ("capacity", "proportion", "drf"),
    "lendingLimit": ("capacity", "proportion", "drf"),
}
"""The plugins that read a field, by its name in the spec."""
_RELATIVE = ("borrowingLimit", "lendingLimit")
"""Limits that are relative to ``deserved``: a queue that has one gives it to the plugins that read the limit."""


def unread_fields(spec: Mapping[str, Any], plugins: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a queue's spec that none of these configured plugins reads, each with a sentence about it."""
    for name, usual in READERS.items():
        if not spec.get(name) or (name == "weight" and spec[name] == 1):
            continue
        relative = name == "deserved" and any(spec.get(limit) for limit in _RELATIVE)
        readers = READERS["borrowingLimit"] if relative else usual
        if not set(readers) & set(plugins):
            reader_names = " or ".join(readers)
            yield name, f"has no effect: no plugin of the scheduler configuration reads it (plugin {reader_names} does)"


def seconds(text: str) -> float:
    """Return a reported credit in seconds of the whole cluster; 0 for a text that is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0
