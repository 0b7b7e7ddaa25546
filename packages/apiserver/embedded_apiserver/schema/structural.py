"""A custom resource's schema as the embedded API server uses it: defaults, pruning and judgement.

Compiled once per version of a CustomResourceDefinition, then asked about every write. It is not safe to be used by two
threads at the same moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any

import msgspec

from embedded_apiserver.field_errors import (  # fmt: skip
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldError,
    FieldPath,
)
from embedded_apiserver.schema.cel_rules import ValidationRule, compile_rules
from embedded_apiserver.schema.schema_tree import SchemaNode, default, drop_nulls, prune, read_schema
from embedded_apiserver.schema.validation import explain

Json = Any
_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class Structural:
    """One compiled schema. Objects passed in are never changed; results share what did not change."""

    root: SchemaNode
    schema: Mapping[str, Any]
    _rules: _RuleWalk | None

    @classmethod
    def compile(cls, openapi_schema: Mapping[str, Any]) -> Structural:
        """Compile a version's `openAPIV3Schema`; raises RuleError or PatternError for a wrong rule or pattern."""
        # Each definition is compiled to be validated and to be served, and again by the next server of a process.
        return _compiled(msgspec.json.encode(openapi_schema), get_ident())

    def default(self, obj: Json) -> Json:
        """The object with the schema's defaults, and without nulls where none are allowed."""
        return default(drop_nulls(obj, self.root), self.root)

    def prune(self, obj: Json) -> tuple[Json, list[str]]:
        """The object without unknown fields, and their paths, sorted; those of the object's own metadata first."""
        unknown: list[str] = []
        pruned = prune(obj, self.root, (), unknown)
        return pruned, sorted(unknown, key=lambda path: (not path.startswith("metadata."), path))

    def validate(self, obj: Json, old: Json | None = None) -> list[FieldError]:
        """Every fault of an object; with `old`, transition rules apply and what did not change is let pass."""
        errors = explain(self.root, obj, old=old)
        if old is not None:
            errors = [error for error in errors if not _unchanged(self.root, obj, old, error)]
        if any(error.reason in _BLOCKING for error in errors):
            return [*errors, FieldError("<nil>", INVALID, _UNCHECKED, None)] if self._rules else errors
        if self._rules is not None:
            for error in self._rules.judge(obj, old, ()):
                if old is None or error.transition or not _unchanged(self.root, obj, old, error):
                    errors.append(error)
        return errors


@lru_cache(maxsize=64)
def _compiled(schema: bytes, _thread: int) -> Structural:
    """Compile a schema, once in each thread: compiled rules are not safe to be used by two."""
    source = msgspec.json.decode(schema)
    root = read_schema(source)
    root.embedded = True
    return Structural(root, source, _compile_walk(root, root=True))


@dataclass(slots=True)
class _RuleWalk:
    """Which rules stand where: only the places of a schema that have rules at or below them."""

    node: SchemaNode
    rules: list[ValidationRule]
    members: dict[str, _RuleWalk]
    other: _RuleWalk | None
    item: _RuleWalk | None
    transition: bool
    """Whether one of the rules compares with the old value."""

    def judge(self, value: Json, old: Json, steps: FieldPath) -> list[FieldError]:
        """What the rules at and below this place hold against a value; nulls are not judged."""
        # What did not change is let pass: only rules that compare with the old value are asked.
        unchanged = bool(steps) and value == old
        if value is None or (unchanged and not self.transition):
            return []
        errors = []
        for rule in self.rules:
            error = None if unchanged and not rule.transition else rule.judge(value, old, steps)
            if error is not None:
                errors.append(error)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for key, member in value.items():
                walk = self.members.get(key) or (None if key in self.node.properties else self.other)
                if walk is not None:
                    errors += walk.judge(member, before.get(key), (*steps, key))
        elif isinstance(value, list) and self.item is not None:
            find = _counterpart(self.node, old)
            for index, entry in enumerate(value):
                errors += self.item.judge(entry, find(entry), (*steps, index))
        return errors


def _compile_walk(node: SchemaNode | None, *, root: bool = False) -> _RuleWalk | None:
    if node is None or not node.has_rules:
        return None
    members = {name: walk for name, child in node.properties.items() if (walk := _compile_walk(child)) is not None}
    rules = compile_rules(node, root=root)
    other, item = _compile_walk(node.additional), _compile_walk(node.items)
    below = (*members.values(), *(walk for walk in (other, item) if walk is not None))
    transition = any(rule.transition for rule in rules) or any(walk.transition for walk in below)
    return _RuleWalk(node, rules, members, other, item, transition)


def _key(node: SchemaNode, entry: Json) -> str:
    return json.dumps([entry.get(key) for key in node.list_keys]) if isinstance(entry, dict) else ""


def _counterpart(node: SchemaNode, old: Json) -> Callable[[Json], Json]:
    """How to find the entry that an entry of a list replaces: by the keys of a map list, never by position."""
    if node.list_type != "map" or not isinstance(old, list):
        return lambda _: None
    before = {_key(node, entry): entry for entry in old}
    return lambda entry: before.get(_key(node, entry))


def _unchanged(node: SchemaNode | None, obj: Json, old: Json, error: FieldError) -> bool:
    """Whether the value that an error is about was there before, just so: then a server lets it pass."""
    value, before = obj, old
    for step in error.steps:
        if node is None or before is None:
            return False
        if isinstance(step, int):
            before = _counterpart(node, before)(value[step])
            value, node = value[step], node.items
        else:
            before = before.get(step) if isinstance(before, dict) else None
            value, node = value[step], node.member(step)
    return bool(error.steps) and before is not None and value == before
