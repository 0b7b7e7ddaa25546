"""Decoding of AdmissionReviews, with a limit on the number of values.

Decoding takes most of the time of a large review, so an object with too many values is not decoded: the characters that begin
or separate values are counted in the bytes.
"""

from typing import Any

import msgspec

from volcanopy.admission.response import AdmissionResponse
from volcanopy.api.model import Json, Problem

MOST_VALUES = 40_000
"""Most values in one object, pod templates included. Commas in texts count as well."""
_LONGEST_UID = 300
_NULL = msgspec.Raw(b"null")


class NoReviewError(ValueError):
    """The body is no AdmissionReview."""


class TooDenseError(Exception):
    """A review with too many values; ``answer`` is the response."""

    def __init__(self, answer: Json) -> None:
        super().__init__("the review has too many values")
        self.answer = answer


class _Request(msgspec.Struct, rename="camel"):
    uid: msgspec.Raw = _NULL
    operation: msgspec.Raw = _NULL
    kind: msgspec.Raw = _NULL
    name: msgspec.Raw = _NULL
    namespace: msgspec.Raw = _NULL
    user_info: msgspec.Raw = _NULL
    dry_run: msgspec.Raw = _NULL
    resource: msgspec.Raw = _NULL
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


class _Review(msgspec.Struct):
    request: _Request


_decode_review = msgspec.json.Decoder(_Review).decode


def read(body: bytes) -> Json:
    """Decode a review. Raises NoReviewError, TooDenseError."""
    try:
        if _values(body) > MOST_VALUES:
            return _divided(_decode_review(body).request)
        review = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise NoReviewError("the body is not JSON, or no AdmissionReview") from None
    if not isinstance(review, dict):
        raise NoReviewError("the body is no AdmissionReview")
    return review


def _divided(request: _Request) -> Json:
    """Decode a large review if each of its two objects is within the limit; a deleted object needs no content."""
    parts = {name: bytes(getattr(request, name)) for name in request.__struct_fields__}
    large = [name for name, part in parts.items() if _values(part) > MOST_VALUES]
    if large == ["old_object"] and parts["operation"] == b'"DELETE"':
        parts["old_object"] = b"null"
    elif large:
        uid = msgspec.json.decode(parts["uid"]) if len(parts["uid"]) <= _LONGEST_UID else ""
        problem = f"the object has more than {MOST_VALUES} values: split it"
        raise TooDenseError(AdmissionResponse((Problem("", problem),)).review(uid if isinstance(uid, str) else ""))
    fields = dict(zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True))
    read: dict[str, Any] = {fields[name]: msgspec.json.decode(part) for name, part in parts.items()}
    return {"request": read}


def _values(body: bytes) -> int:
    """Return an upper bound of the number of values."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")
