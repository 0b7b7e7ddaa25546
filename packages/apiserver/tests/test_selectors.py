"""Label and field selectors have the semantics of Kubernetes, and errors that name the problem."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.schema.selectors import (
    FieldSelector,
    LabelSelector,
    SelectorError,
    label_selector_from_object,
)
from embedded_apiserver.store.object_store import encode

LABELS = {"app": "web", "tier": "front", "replicas": "3"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app=db", False),
        ("app in (web,db)", True),
        ("app notin (web,db)", False),
        ("zone notin (a)", True),
        ("zone!=a", True),
        ("zone", False),
        ("!zone", True),
        ("!app", False),
        ("app,tier", True),
        ("replicas>2,replicas<4", True),
        ("replicas>3", False),
        ("app>2", False),
        ("app=", False),
        ("in in (in)", False),
        (" app  in ( web , db ) , tier = front ", True),
    ],
)
def test_a_label_selector_selects(text: str, *, selected: bool) -> None:
    assert LabelSelector.parse(text).matches(LABELS) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ],
)
def test_an_invalid_label_selector_names_the_expected_token(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert str(caught.value) == message


def test_keys_and_values_of_labels_must_be_well_formed() -> None:
    with pytest.raises(SelectorError, match=r'<nil>: Invalid value: "-a": name part must consist of alphanumeric'):
        LabelSelector.parse("-a=b")
    with pytest.raises(SelectorError, match=r'"a b": a valid label must be an empty string or consist of'):
        label_selector_from_object({"matchLabels": {"x": "a b"}})
    with pytest.raises(SelectorError, match="name part must be no more than 63 bytes"):
        LabelSelector.parse("a" * 64)


def test_a_selector_object_equals_its_string_form() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["front", "back"]},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
        {"key": "x", "operator": "NotIn", "values": ["y"]},
    ]
    built = label_selector_from_object({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert set(built.requirements) == set(
        LabelSelector.parse("app=web,app,tier in (front,back),!zone,x notin (y)").requirements
    )


def test_no_selector_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector_from_object(None).matches(LABELS)
    assert label_selector_from_object({}).matches({})
    assert label_selector_from_object({}).empty


def test_an_unknown_operator_is_rejected() -> None:
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        label_selector_from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


word = st.from_regex(r"[a-z]([a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda text: text not in ("in", "notin"))


@given(st.dictionaries(word, word, min_size=1))
def test_an_object_is_selected_by_its_own_labels(labels: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in labels.items())
    assert LabelSelector.parse(text).matches(labels)


@given(st.dictionaries(word, word), word, st.sets(word, min_size=1))
def test_in_and_notin_are_opposites(labels: dict[str, str], key: str, values: set[str]) -> None:
    listed = ",".join(values)
    inside = LabelSelector.parse(f"{key} in ({listed})").matches(labels)
    assert inside is not LabelSelector.parse(f"{key} notin ({listed})").matches(labels)


def test_field_selectors_read_equal_and_unequal_terms() -> None:
    selector = FieldSelector.parse("status.phase!=Failed,metadata.name==a")
    assert selector.terms == (("metadata.name", "=", "a"), ("status.phase", "!=", "Failed"))
    assert selector.matches({"metadata.name": "a", "status.phase": ""}.__getitem__)
    assert not selector.matches({"metadata.name": "a", "status.phase": "Failed"}.__getitem__)


def test_field_selectors_support_escapes() -> None:
    assert FieldSelector.parse(r"a=b\,c\=d\\").terms == (("a", "=", "b,c=d\\"),)
    with pytest.raises(SelectorError, match="invalid escape sequence"):
        FieldSelector.parse(r"a=b\x")
    with pytest.raises(SelectorError, match="unescaped character in value"):
        FieldSelector.parse("a=b=c")
    with pytest.raises(SelectorError, match="invalid selector: 'a'; can't understand 'a'"):
        FieldSelector.parse("a")


@given(labels=st.dictionaries(word, word), chosen=st.dictionaries(word, word, max_size=3))
def test_the_encoded_form_of_a_selected_object_has_the_required_texts(
    labels: dict[str, str], chosen: dict[str, str]
) -> None:
    selector = label_selector_from_object({"matchLabels": chosen})
    raw = encode({"metadata": {"labels": labels | chosen}})
    assert all(any(text in raw for text in texts) for texts in selector.required_texts())
    if not selector.matches(labels):
        bare = encode({"metadata": {"labels": labels}})
        assert not all(any(text in bare for text in texts) for texts in selector.required_texts())
