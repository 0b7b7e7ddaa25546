"""Limits of reviews: too many values are rejected before parsing, and so are other objects than reviews."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volcanopy.services.admission.request_limits import MOST_VALUES, NoReviewError, TooDenseError, read

DENSE = [{"name": "a"}] * MOST_VALUES


def body(**request: Any) -> bytes:
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_a_review_is_read_as_it_is() -> None:
    result = read(body(uid="u", object={"spec": {"a": [1, 2]}}))
    assert result["request"] == {"uid": "u", "object": {"spec": {"a": [1, 2]}}}


@pytest.mark.parametrize("sent", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"request":' + b"[," * 50_000])
def test_other_objects_than_reviews_are_rejected(sent: bytes) -> None:
    with pytest.raises(NoReviewError):
        read(sent)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_a_review_with_too_many_values_is_rejected_with_its_uid(operation: str) -> None:
    with pytest.raises(TooDenseError) as caught:
        read(body(uid="u", operation=operation, object={"spec": DENSE}))
    response = caught.value.answer["response"]
    assert (response["uid"], response["allowed"]) == ("u", False)
    assert response["status"]["message"] == "the object has more than 40000 values: split it"


@pytest.mark.parametrize("sent", [body(uid=DENSE), body(uid=5, userInfo=DENSE), body(uid="u", name=DENSE)])
def test_values_outside_of_the_object_count(sent: bytes) -> None:
    with pytest.raises(TooDenseError) as caught:
        read(sent)
    assert not caught.value.answer["response"]["allowed"]


def test_the_old_and_the_new_object_have_separate_limits() -> None:
    half = {"spec": DENSE[: MOST_VALUES // 3]}
    said = {"uid": "u", "operation": "UPDATE", "kind": {"kind": "Queue", "group": "g"}, "dryRun": True}
    request = read(body(**said, object=half, oldObject=half, userInfo={"username": "a"}))["request"]
    assert request["object"] == request["oldObject"] == half
    assert request["userInfo"] == {"username": "a"}
    assert {key: request[key] for key in said} == said


def test_an_object_with_too_many_values_can_be_deleted() -> None:
    request = read(body(uid="u", operation="DELETE", name="q", object=None, oldObject={"spec": DENSE}))["request"]
    assert (request["name"], request["object"], request["oldObject"]) == ("q", None, None)


@settings(max_examples=50, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
    )
)
def test_the_estimate_is_an_upper_bound_of_the_values(value: Any) -> None:
    from volcanopy.services.admission.request_limits import _values

    def count(result: Any) -> int:
        inner = result.values() if isinstance(result, dict) else result if isinstance(result, list) else ()
        return 1 + sum(map(count, inner))

    assert count(value) <= _values(msgspec.json.encode(value)) + 1
