"""The difference of two objects as a merge patch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kube.faulty_server import merged as merge
from volcanopy.kube.client.merge_patch import merge_patch

values = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 3), st.text("ab", max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)


@given(objects, objects)
def test_the_patch_applied_to_the_first_gives_the_second(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, merge_patch(before, after)) == after


@given(objects)
def test_equal_objects_need_no_patch(same: dict[str, Any]) -> None:
    assert merge_patch(same, same) == {}


def test_the_patch_contains_only_differences() -> None:
    before = {"spec": {"a": 1, "b": 2, "c": {"d": 3}}, "status": {"e": 4}}
    after = {"spec": {"a": 1, "b": 5, "c": {}}, "status": {"e": 4}}
    assert merge_patch(before, after) == {"spec": {"b": 5, "c": {"d": None}}}
