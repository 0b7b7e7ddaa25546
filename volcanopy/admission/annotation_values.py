"""Values of annotations and labels that volcanopy reads: one table of their forms, and the problems of values."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from volcanopy.admission.request import at, own_keys
from volcanopy.api import names
from volcanopy.api.model import Json, Problem, invalid, parse_duration


class Form(NamedTuple):
    """The form of a value: whether a text has it, and the sentence about one that has not."""

    accepts: Callable[[str], object]
    rule: str


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def _pattern(expression: str, rule: str) -> Form:
    return Form(re.compile(expression).fullmatch, rule)


_BOOL = _pattern("1|t|T|TRUE|true|True|0|f|F|FALSE|false|False", "must be true or false")
_DURATION = Form(_is_duration, "must be a duration such as 90s, 10m or 1h30m")
_BUDGET = _pattern(r"[1-9][0-9]{0,8}|[1-9][0-9]?%", "must be an integer greater than 0 or a percentage from 1% to 99%")
FORMS: Mapping[str, Form] = MappingProxyType(
    {
        names.PREEMPTABLE: _BOOL,
        names.MOVABLE: _BOOL,
        names.COOLDOWN_TIME: _DURATION,
        names.SLA_WAITING_TIME: _DURATION,
        "sla-waiting-time": _DURATION,
        names.MAX_RUNTIME: _DURATION,
        names.WALLTIME: _DURATION,
        names.RUNNING_ESTIMATE: _DURATION,
        names.JDB_MIN_AVAILABLE: _BUDGET,
        names.JDB_MAX_UNAVAILABLE: _BUDGET,
        names.REVOCABLE_ZONE: _pattern(r"\*?", 'must be "*"'),
        names.TASK_PRIORITY: _pattern("-?[0-9]{1,9}", "must be an integer"),
        names.GROUP_MIN_MEMBER: _pattern("[1-9][0-9]{0,8}|all", 'must be an integer greater than 0, or "all"'),
        names.NETWORK_TOPOLOGY_MODE: _pattern("hard|soft", "must be hard or soft"),
        names.NETWORK_TOPOLOGY_HIGHEST_TIER: _pattern("[0-9]{1,9}", "must be the number of a tier"),
    }
)
"""The forms by volcanopy's names; a key that Volcano has under its domain has the same form there."""


def value_problems(manifest: Json | None, old: Json | None = None, path: str = "metadata") -> Iterator[Problem]:
    """Yield the values of annotations and labels of an object or template that have another form; unchanged ones are accepted."""
    for part in ("annotations", "labels"):
        before = _content(old, part)
        for key, value in _content(manifest, part).items():
            form = FORMS.get(key)
            if form is not None and before.get(key) != value and not form.accepts(value):
                yield invalid(f"{path}.{part}[{key}]", value, form.rule)


def _content(manifest: Json | None, part: str) -> Mapping[str, str]:
    values = at(manifest, "metadata", part)
    texts = {key: value for key, value in values.items() if isinstance(value, str)} if isinstance(values, dict) else {}
    return own_keys(texts)
