"""Size limits of objects, checked before anything else so that a review takes limited time."""

from collections.abc import Iterator
from typing import Any

from volcanopy.api.model import Json, Problem, too_many

MAX_VALUES = 10_000
MAX_ENTRIES = 1024
MAX_DEPTH = 32
_SKIPPED = frozenset({"template", "volumeClaim", "managedFields", "jobSpec", "status"})
"""Fields that are validated by the API server's schema only, and the status, which controllers write."""
_UNLIMITED = frozenset({"annotations", "labels"})


def size_problems(manifest: Json) -> Iterator[Problem]:
    """Yield the first size limit that the object exceeds, without its pod templates."""
    left = MAX_VALUES
    level: list[tuple[str, Any]] = [("", manifest)]
    for _ in range(MAX_DEPTH):
        onward: list[tuple[str, Any]] = []
        for path, value in level:
            key = path.rpartition(".")[2]
            if key in _SKIPPED:
                continue
            if isinstance(value, (dict, list)) and len(value) > MAX_ENTRIES and key not in _UNLIMITED:
                yield too_many(path[:200], len(value), MAX_ENTRIES)
                return
            if isinstance(value, dict) and key not in _UNLIMITED:
                onward += [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
            elif isinstance(value, list):
                onward += [(path, item) for item in value]
            left -= len(value) if isinstance(value, (dict, list)) else 0
            if left < 0:
                yield Problem("", f"Too many: must have at most {MAX_VALUES} values outside of pod templates")
                return
        level = [(path, value) for path, value in onward if isinstance(value, (dict, list))]
        if not level:
            return
    yield Problem(level[0][0][:200], f"Invalid value: must have at most {MAX_DEPTH} levels of nesting")
