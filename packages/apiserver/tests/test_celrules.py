"""CEL rules see values as Kubernetes shows them, and know the functions that Kubernetes adds."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from embedded_apiserver.schema.cel_rules import RuleError, compile_rules, escape
from embedded_apiserver.schema.schema_tree import read_schema

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def judge(rule: str, schema: dict[str, Any], value: Any, **source: Any) -> str | None:
    """The error of one rule for a value; None if it is valid."""
    node = read_schema({**schema, "x-kubernetes-validations": [{"rule": rule, **source}]})
    error = compile_rules(node)[0].judge(value, None, ("spec",))
    return None if error is None else str(error)


@pytest.mark.parametrize(
    "rule",
    [
        "self.numbers.isSorted()",
        "self.numbers.sum() == 6",
        "self.numbers.max() == 3 && self.numbers.min() == 1",
        "self.numbers.indexOf(2) == 1 && self.numbers.lastIndexOf(9) == -1",
        "self.name.find('[0-9]+') == '12'",
        "self.name.findAll('[a-z]') == ['a', 'b']",
        "self.name.split('1')[0] == 'a'",
        "self.name.startsWith('a') && self.name.matches('^a[0-9]+b$')",
        "self.name.lowerAscii() == 'a12b'",
        "'%s has %d'.format([self.name, 3]) == 'a12b has 3'",
        "quantity('1Gi').isGreaterThan(quantity('500Mi'))",
        "quantity('1').compareTo(quantity('1000m')) == 0",
        "quantity('1').add(quantity('500m')).isLessThan(quantity('2'))",
        "isQuantity('10m') && !isQuantity('ten')",
        "self.numbers.all(n, n > 0) && self.numbers.exists_one(n, n == 2)",
        "self.items.all(i, self.items.exists_one(j, j.name == i.name))",
        "self.items.filter(i, has(i.data)).all(i, i.data == 'x') && self.items.size() == 2 && size(self) > 2",
        "self.items.map(i, i.name).exists(n, n == 'b') && [self.items].all(list, list.exists(i, has(i.data)))",
        "!has(self.absent)",
        "self.ratio > 0.5",
        "self.after > duration('59s')",
        "self.at < timestamp('2030-01-01T00:00:00Z')",
        "self.labels.all(key, self.labels[key] != '')",
        "self.__if__ == 'x' && self.with__dash__dash == 'y'",
        "self.port == 80",
    ],
)
def test_rules_support_kubernetes_functions(rule: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "numbers": {"type": "array", "items": NUMBER},
            "name": TEXT,
            "absent": TEXT,
            "ratio": {"type": "number"},
            "after": {"type": "string", "format": "duration"},
            "at": {"type": "string", "format": "date-time"},
            "labels": {"type": "object", "additionalProperties": TEXT},
            "items": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "data": TEXT}}},
            "if": TEXT,
            "with-dash": TEXT,
            "port": {"x-kubernetes-int-or-string": True},
        },
    }
    value = {
        "numbers": [1, 2, 3],
        "name": "a12b",
        "ratio": 1,
        "after": "1m",
        "at": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "items": [{"name": "a", "data": "x"}, {"name": "b"}],
        "if": "x",
        "with-dash": "y",
        "port": 80,
    }
    assert judge(rule, schema, value) is None


def test_a_failed_rule_without_a_message_shows_its_expression() -> None:
    assert judge("self > 3", NUMBER, 2) == "spec: Invalid value: 2: failed rule: self > 3"


def test_the_message_expression_precedes_the_message() -> None:
    expected_error = judge("self > 3", NUMBER, 2, message="too small", messageExpression="'only ' + string(self)")
    assert expected_error == "spec: Invalid value: 2: only 2"
    broken = judge("self > 3", NUMBER, 2, message="too small", messageExpression="'only ' + string(self / 0)")
    assert broken == "spec: Invalid value: 2: too small"


@pytest.mark.parametrize(
    ("reason", "expected_error"),
    [
        ("FieldValueRequired", "spec.name: Required value: why"),
        ("FieldValueForbidden", "spec.name: Forbidden: why"),
        ("FieldValueInvalid", "spec.name: Invalid value: why"),
    ],
)
def test_reason_and_field_path_are_used_in_the_error(reason: str, expected_error: str) -> None:
    schema = {"type": "object", "properties": {"name": TEXT}}
    assert judge("has(self.name)", schema, {}, reason=reason, message="why", fieldPath=".name") == expected_error


@pytest.mark.parametrize(
    ("rule", "expected_error"),
    [
        ("self.items[3].name == 'a'", "index out of bounds: 3 evaluating rule"),
        ("self.missing == 'a'", "no such key: missing evaluating rule"),
        ("1 / (self.n - self.n) == 1", "division by zero evaluating rule"),
        ("self.n + 'a' == 'b'", "no such overload"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_an_error_not_a_pass(rule: str, expected_error: str) -> None:
    schema = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "object"}}, "n": NUMBER, "missing": TEXT},
    }
    assert expected_error in (judge(rule, schema, {"items": [], "n": 1}) or "")


def test_a_rule_that_does_not_compile_is_rejected_with_its_text() -> None:
    with pytest.raises(RuleError, match=r"rule 'self\.\(' does not compile"):
        compile_rules(read_schema({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}))


def test_a_function_that_does_not_exist_is_found_when_the_rule_is_compiled() -> None:
    with pytest.raises(RuleError, match="undeclared reference to 'wibble'"):
        compile_rules(read_schema({"type": "string", "x-kubernetes-validations": [{"rule": "self.wibble() == 1"}]}))


def test_a_rule_may_take_the_old_value_as_optional() -> None:
    source = {"rule": "oldSelf.orValue('none') != self", "optionalOldSelf": True}
    rule = compile_rules(read_schema({"type": "string", "x-kubernetes-validations": [source]}))[0]
    assert rule.judge("a", None, ()) is None
    assert rule.judge("none", None, ()) is not None
    assert rule.judge("a", "a", ()) is not None


def test_comparing_whole_objects_compares_every_field() -> None:
    """Fields that a rule does not name are left out for speed, but not where objects are compared."""
    schema = {
        "type": "object",
        "properties": {side: {"type": "object", "properties": {"unnamed": NUMBER}} for side in ("a", "b")},
    }
    assert judge("self.a == self.b", schema, {"a": {"unnamed": 1}, "b": {"unnamed": 1}}) is None
    assert judge("self.a == self.b", schema, {"a": {"unnamed": 1}, "b": {"unnamed": 2}}) is not None
    nested = {"type": "array", "items": schema}
    assert judge("self.all(x, x in [self[0]])", nested, [{"a": {"unnamed": 1}}, {"a": {"unnamed": 2}}]) is not None


def test_names_that_cel_reserves_are_escaped() -> None:
    assert [escape(name) for name in ("if", "a-b", "a.b/c", "x__y", "plain")] == [
        "__if__", "a__dash__b", "a__dot__b__slash__c", "x__underscores__y", "plain",
    ]  # fmt: skip


def test_a_server_starts_without_the_command_line_of_the_library_which_can_still_be_imported() -> None:
    program = (
        "import embedded_apiserver.server, sys; assert 'prompt_toolkit' not in sys.modules;"
        " import cel.cli; assert 'prompt_toolkit' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
