"""Error responses: Status objects with the codes, reasons and messages of a real API server.

Everything below the HTTP handler raises `ApiError`; the handler turns it into a response.
"""

from collections.abc import Sequence
from typing import Any

from embedded_apiserver.field_errors import FieldError


class ApiError(Exception):
    """A failed request: `code` is the HTTP status, `reason` the machine-readable reason, `str()` the message."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def status(self) -> dict[str, Any]:
        """The Status object that clients receive."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(details: dict[str, Any] | None = None, code: int = 200) -> dict[str, Any]:
    """The Status object of something done that has no object to return."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code != 200:
        body["code"] = code
    return body


def qualified(plural: str, group: str) -> str:
    """`pods`, or `widgets.example.io`: a resource as messages name it."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    return details | more


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404: this object is not there."""
    text = f'{qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", text, details=_details(plural, group, name))


def no_such_page() -> ApiError:
    """404: no such API at all."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409: create of a name that is taken."""
    text = f'{qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details=_details(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """409: the write was built on something that is no longer so."""
    text = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", text, details=_details(plural, group, name))


def failed_precondition(plural: str, group: str, namespace: str, name: str, what: str) -> ApiError:
    """409: the write is meant for another object of that name, or another version of it."""
    key = "/".join(part for part in ("/registry", group, plural, namespace, name) if part)
    text = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    return conflict(plural, group, name, f"{text}Precondition failed: {what}")


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, group: str, name: str, faults: Sequence[FieldError]) -> ApiError:
    """422: the object breaks rules; every broken field is named."""
    texts = list(dict.fromkeys(str(fault) for fault in faults))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": fault.reason, "message": fault.body, "field": fault.path} for fault in faults]
    return ApiError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        details=_details(kind, group, name, causes=causes),
    )


def bad_request(text: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(400, "BadRequest", text)


def forbidden(plural: str, group: str, name: str, why: str, *, causes: list[dict[str, str]] | None = None) -> ApiError:
    """403: a rule of the cluster, not of the object, stands against it."""
    text = f'{qualified(plural, group)} "{name}" is forbidden: {why}' if name else f"{qualified(plural, group)} {why}"
    details = _details(plural, group, name)
    if causes:
        details["causes"] = causes
    return ApiError(403, "Forbidden", text, details=details)


def expired(text: str) -> ApiError:
    """410: the resourceVersion is too old."""
    return ApiError(410, "Expired", text)


def method_not_allowed() -> ApiError:
    """405: the resource exists, the verb does not."""
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, details={})


def unsupported_media(text: str) -> ApiError:
    """415: the body's format is not one that this resource takes."""
    return ApiError(415, "UnsupportedMediaType", text, details={} if text.startswith("415") else None)


def too_many_requests(text: str, retry_after: int, causes: list[dict[str, str]] | None = None) -> ApiError:
    """429: not now; evictions that a budget does not allow answer so."""
    details: dict[str, Any] = {"retryAfterSeconds": retry_after} if retry_after else {}
    if causes:
        details["causes"] = causes
    return ApiError(429, "TooManyRequests", text, details=details, retry_after=retry_after)


def internal(text: str) -> ApiError:
    """500: something outside the request failed, such as a webhook."""
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", details={"causes": [{"message": text}]})
