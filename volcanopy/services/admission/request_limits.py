"""The first look at what an API server sends: read whole if it can be judged in time, and refused in words otherwise.

Making objects of JSON takes most of the time that a large review costs, so what is too dense is not made into any: the signs
that begin a value or part it from the next are counted in the bytes.
"""

from typing import Any

import msgspec

from volcanopy.admission.response import AdmissionResponse
from volcanopy.api.model import Json, Problem

MOST_VALUES = 40_000
"""Values in one object, pod templates included. Commas in texts count as well."""
_LONGEST_UID = 300
_NULL = msgspec.Raw(b"null")


class NoReviewError(ValueError):
    """A body that is no AdmissionReview; says why."""


class TooDenseError(Exception):
    """A review that is not looked through; ``answer`` is what the API server is told."""

    def __init__(self, answer: Json) -> None:
        super().__init__("the review holds too many values")
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
    """The review. Raises NoReviewError for what is none, TooDenseError for what takes too long to judge."""
    try:
        if _values(body) > MOST_VALUES:
            return _divided(_decode_review(body).request)
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise NoReviewError("the body is not JSON, or no AdmissionReview") from None
    if not isinstance(found, dict):
        raise NoReviewError("the body is no AdmissionReview")
    return found


def _divided(request: _Request) -> Json:
    """A review that is large, maybe because it holds two objects. Of what is deleted the name is enough."""
    parts = {name: bytes(getattr(request, name)) for name in request.__struct_fields__}
    large = [name for name, part in parts.items() if _values(part) > MOST_VALUES]
    if large == ["old_object"] and parts["operation"] == b'"DELETE"':
        parts["old_object"] = b"null"
    elif large:
        uid = msgspec.json.decode(parts["uid"]) if len(parts["uid"]) <= _LONGEST_UID else ""
        told = f"the object has more than {MOST_VALUES} values: make several of it"
        raise TooDenseError(AdmissionResponse((Problem("", told),)).review(uid if isinstance(uid, str) else ""))
    fields = dict(zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True))
    read: dict[str, Any] = {fields[name]: msgspec.json.decode(part) for name, part in parts.items()}
    return {"request": read}


def _values(body: bytes) -> int:
    """At least as many values as there are, however they are nested."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")
