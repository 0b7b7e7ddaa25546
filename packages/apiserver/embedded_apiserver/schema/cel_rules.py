"""The CEL rules of a schema (`x-kubernetes-validations`), compiled once and asked about values.

Handing a value to the CEL library costs more than evaluating the rule, so each rule gets only the fields that it uses
(:mod:`.expression_fields`). Values that lately passed a rule are not handed over again: most writes change nothing that a rule
can see.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from embedded_apiserver.field_errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    OMITTED,
    REQUIRED,
    FieldError,
    FieldPath,
    path_text,
)
from embedded_apiserver.schema.cel_functions import FUNCTIONS, cel
from embedded_apiserver.schema.expression_fields import ELEMENT, NOTHING, Uses, uses_of
from embedded_apiserver.schema.formats import parse_duration, parse_timestamp
from embedded_apiserver.schema.schema_tree import SchemaNode

Json = Any
Convert = Callable[[Any], Any]

_REASONS: Final = {"FieldValueInvalid": INVALID, "FieldValueRequired": REQUIRED,
                   "FieldValueForbidden": FORBIDDEN, "FieldValueDuplicate": DUPLICATE}  # fmt: skip
_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue",
    "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
# What the CEL library brings along; operators have names that are no identifiers.
_NATIVE: Final = frozenset({
    "size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string", "bytes", "timestamp",
    "duration", "type", "dyn", "has", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "hasValue", "value", "orValue", "or",
})  # fmt: skip


_REMEMBERED: Final = 8
"""The number of values that each rule remembers to have passed."""


class RuleError(ValueError):
    """A rule that cannot be compiled, with the reason."""


@lru_cache(maxsize=4096)
def escape(name: str) -> str:
    """A field's name as CEL rules spell it."""
    if name in _RESERVED:
        return f"__{name}__"
    for plain, spelled in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(plain, spelled)
    return name


@dataclass(slots=True)
class ValidationRule:
    """One compiled rule at one place of a schema."""

    node: SchemaNode
    source: Mapping[str, Any]
    program: cel.Program
    message: cel.Program | None
    context: cel.Context
    convert: Convert
    convert_old: Convert
    transition: bool
    optional_old: bool
    field_path: FieldPath
    passed: deque[tuple[Json, Json]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """The last values that passed, as the rule sees them, each with its old value."""

    def judge(self, value: Json, old: Json, steps: FieldPath) -> FieldError | None:
        """The message of a violated rule; None if the value passes, or if the rule needs a missing `old`."""
        if self.transition and old is None and not self.optional_old:
            return None
        try:
            visible = self.convert(value), self._old(old) if self.transition else None
            if visible in self.passed:
                return None
            self.context.add_variable("self", visible[0])
            if self.transition:
                self.context.add_variable("oldSelf", visible[1])
            if self.program.execute(self.context) is True:
                if not self.optional_old:  # such values do not compare
                    self.passed.append(visible)
                return None
        except (KeyError, IndexError, ZeroDivisionError, TypeError, ValueError, RuntimeError, OverflowError) as fault:
            return self._broken(fault, steps)
        return self._failure(value, steps)

    def _old(self, old: Json) -> Json:
        if not self.optional_old:
            return self.convert_old(old)
        return cel.OptionalValue.none() if old is None else cel.OptionalValue.of(self.convert_old(old))

    def _broken(self, fault: Exception, steps: FieldPath) -> FieldError:
        text = str(self.source.get("message") or self.source["rule"]).strip()
        if isinstance(fault, TypeError):
            mismatch = "call arguments did not match a supported operator, function or macro signature"
            message = f"'no such overload': {mismatch} for rule: {text}"
        else:
            reason = fault.args[0] if fault.args else type(fault).__name__
            if isinstance(fault, KeyError):
                reason = f"no such key: {reason}"
            elif isinstance(fault, ZeroDivisionError):
                reason = "division by zero"
            message = f"{reason} evaluating rule: {text}"
        kind = self.node.types[0] if len(self.node.types) == 1 else ""
        return FieldError(path_text(steps), INVALID, message, kind, steps)

    def _failure(self, value: Json, steps: FieldPath) -> FieldError:
        reason = _REASONS.get(self.source.get("reason", ""), INVALID)
        shown = OMITTED if isinstance(value, (dict, list)) else value
        message = "" if reason == DUPLICATE else self._message()
        return FieldError(path_text(steps + self.field_path), reason, message, shown, steps, self.transition)

    def _message(self) -> str:
        if self.message is not None:
            try:
                text = self.message.execute(self.context)
            except (KeyError, IndexError, ZeroDivisionError, TypeError, ValueError, RuntimeError, OverflowError):
                text = None  # the plain message below is what a real server falls back to
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        if message := self.source.get("message"):
            return str(message).strip()
        return f"failed rule: {str(self.source['rule']).strip()}"


def compile_rules(node: SchemaNode, *, root: bool = False) -> list[ValidationRule]:
    """The rules that stand at this place of a schema; raises RuleError naming the rule that is at fault."""
    return [_compile_rule(node, source, root) for source in node.rules if str(source.get("rule", "")).strip()]


def _program(text: str, what: str) -> cel.Program:
    try:
        return cel.compile(text)
    except ValueError as fault:
        raise RuleError(f"{what} {text!r} does not compile: {fault}") from None


def _compile_rule(node: SchemaNode, source: Mapping[str, Any], root: bool) -> ValidationRule:
    text = str(source["rule"])
    program = _program(text, "rule")
    message = (
        _program(str(source["messageExpression"]), "messageExpression") if source.get("messageExpression") else None
    )
    uses = uses_of([text, str(source.get("messageExpression") or "")], ("self", "oldSelf"))
    names = set(program.variables()) | set(message.variables() if message else ())
    called = set(program.functions()) | set(message.functions() if message else ())
    functions = {name: FUNCTIONS[name] for name in called if name in FUNCTIONS}
    for name in sorted(called - functions.keys() - _NATIVE):
        if name.isidentifier():
            raise RuleError(f"rule {text!r} does not compile: undeclared reference to '{name}'")
    return ValidationRule(
        node=node,
        source=source,
        program=program,
        message=message,
        context=cel.Context(functions=functions),
        convert=_converter(node, uses.get("self", NOTHING), root),
        convert_old=_converter(node, uses.get("oldSelf", NOTHING), root),
        transition="oldSelf" in names,
        optional_old=bool(source.get("optionalOldSelf")),
        field_path=_read_field_path(str(source.get("fieldPath") or "")),
    )


def _read_field_path(text: str) -> FieldPath:
    return tuple(plain or quoted for plain, quoted in re.findall(r"\.([A-Za-z_]\w*)|\['([^']*)'\]", text))


def _converter(node: SchemaNode, uses: Uses, root: bool = False) -> Convert:
    """How a value is handed to CEL: types by the schema, names as CEL spells them, nothing that no rule can see."""
    if node.types == ("number",):
        return lambda value: float(value) if isinstance(value, int) else value
    if node.types == ("string",):
        return _text_converter(node.source.get("format", ""))
    if node.items is not None:
        item = _converter(node.items, uses.get(ELEMENT, {}))
        return lambda value: [item(entry) for entry in value] if isinstance(value, list) else value
    if node.additional is not None and not node.properties:
        member = _converter(node.additional, {})
        return lambda value: {k: member(v) for k, v in value.items()} if isinstance(value, dict) else value
    if not node.properties and not root and not node.embedded:
        return lambda value: value
    return _object_converter(node, uses, root)


def _object_converter(node: SchemaNode, uses: Uses, root: bool) -> Convert:
    fields: dict[str, tuple[str, Convert]] = {}
    whole = not uses or ELEMENT in uses
    for name, child in node.properties.items():
        spelled = escape(name)
        if whole or spelled in uses:
            fields[name] = (spelled, _converter(child, uses.get(spelled, {})))
    if root or node.embedded:
        plain: Convert = lambda value: value  # noqa: E731 - one word for "as it is"
        fields |= {"apiVersion": ("apiVersion", plain), "kind": ("kind", plain), "metadata": ("metadata", _metadata)}

    def convert(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        members = {}
        for name, (spelled, member) in fields.items():
            if name in value:
                members[spelled] = member(value[name])
        return members

    return convert


def _metadata(value: Json) -> Json:
    """Of an object's metadata, rules see its name only."""
    return {key: value[key] for key in ("name", "generateName") if key in value} if isinstance(value, dict) else value


def _text_converter(form: str) -> Convert:
    readers: dict[str, Callable[[str], Any]] = {
        "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
        "date-time": parse_timestamp,
        "datetime": parse_timestamp,
        "duration": parse_duration,
        "byte": lambda text: text.encode(),
    }
    reader = readers.get(form)
    if reader is None:
        return lambda value: value
    return lambda value: reader(value) if isinstance(value, str) else value
