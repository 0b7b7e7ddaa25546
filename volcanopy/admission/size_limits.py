"""Objects too large to be judged in the time that there is: told so before anything else is looked at."""

from collections.abc import Iterator
from typing import Any

from volcanopy.api.model import Json, Problem

MOST_VALUES = 10_000
WIDEST = 1024
DEEPEST = 32
_NOT_READ = frozenset({"template", "volumeClaim", "managedFields", "jobSpec", "status"})
"""What the API server's schema checks and we do not walk through. A status is the controllers' own."""
_NAMED_FREELY = frozenset({"annotations", "labels"})


def bound_problems(manifest: Json) -> Iterator[Problem]:
    """The first bound that the object passes, counting what stands outside pod templates."""
    left = MOST_VALUES
    level: list[tuple[str, Any]] = [("", manifest)]
    for _ in range(DEEPEST):
        onward: list[tuple[str, Any]] = []
        for path, value in level:
            key = path.rpartition(".")[2]
            if key in _NOT_READ:
                continue
            if isinstance(value, (dict, list)) and len(value) > WIDEST and key not in _NAMED_FREELY:
                yield Problem(path[:200], f"has {len(value)} entries: {WIDEST} are allowed")
                return
            if isinstance(value, dict) and key not in _NAMED_FREELY:
                onward += [(f"{path}.{name}" if path else str(name), one) for name, one in value.items()]
            elif isinstance(value, list):
                onward += [(path, one) for one in value]
            left -= len(value) if isinstance(value, (dict, list)) else 0
            if left < 0:
                yield Problem(
                    "", f"the object has more than {MOST_VALUES} values outside of pod templates: make several"
                )
                return
        level = [(path, value) for path, value in onward if isinstance(value, (dict, list))]
        if not level:
            return
    yield Problem(level[0][0][:200], f"is nested more than {DEEPEST} levels deep")
