"""Errors of API requests, one type per cause.

There are two families. :class:`ApiError`: the server rejected the request; the exception contains the parsed ``Status``.
:class:`NoAnswer`: no (complete) response came, so ``maybe_applied`` indicates whether the server may have applied the request."""

from typing import ClassVar

import msgspec

from volcanopy.api.decoding import decode


class KubeError(Exception):
    """Base of all errors of requests to a cluster."""


class NoCluster(KubeError):
    """No cluster is configured, or its configuration is invalid. The message contains the remedy."""


class Unreadable(KubeError):
    """The server sent an object that does not match the type of its kind."""


class NotLeading(KubeError):
    """A write was not sent, because this process is not, or not certainly, the leader."""


class NoAnswer(KubeError):
    """No response: connection refused or lost, time-out, bad certificate.

    ``maybe_applied`` is False when the request certainly never reached the server (nothing was sent), True when it may
    have been applied. ``in_doubt`` is the same for all attempts of the call together. ``permanent`` is True where a retry
    is pointless: an untrusted certificate, an invalid URL.
    """

    def __init__(self, url: str, cause: str, *, maybe_applied: bool) -> None:
        super().__init__(f"no answer from {url}: {cause}")
        self.url = url
        self.cause = cause
        self.maybe_applied = maybe_applied
        self.in_doubt = maybe_applied
        self.permanent = False


class StatusCause(msgspec.Struct, omit_defaults=True):
    """A cause in a Status: a machine-readable reason, a message, and the field that it concerns."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, rename="camel", omit_defaults=True):
    """The ``details`` of a Status object."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, rename="camel", omit_defaults=True):
    """A ``Status`` object: an error of the API server, as a response or inside a watch stream."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


_NO_WEBHOOK = "failed calling webhook"
"""What the API server writes when no webhook answers and its failurePolicy is Fail."""
NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in the Status of a rejected creation in a namespace that is being deleted."""


class ApiError(KubeError):
    """The server rejected the request. ``code`` is the HTTP status, ``reason`` the server's CamelCase reason.

    ``retry_after`` (seconds) comes from the header or the Status, else None. ``in_doubt`` is True when this attempt, or an
    earlier one of the same call, may have been applied.
    """

    reasons: ClassVar[tuple[str, ...]] = ()
    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        details: StatusDetails | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP status {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.in_doubt = self.maybe_applied

    @property
    def namespace_is_deleted(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted, with all that is in it."""
        return self.has_cause(NAMESPACE_TERMINATING)

    def has_cause(self, reason: str) -> bool:
        """Whether the Status names this reason among its causes."""
        return any(cause.reason == reason for cause in (self.details and self.details.causes) or ())

    @property
    def of_webhook(self) -> bool:
        """Whether an admission webhook cannot be called, because its node is lost for example."""
        return _NO_WEBHOOK in self.message

    @property
    def maybe_applied(self) -> bool:
        """Whether a write with this response may have been applied nevertheless (server-side failures). Webhooks are called
        before anything is stored."""
        return self.code >= 500 and not self.of_webhook


class NotFound(ApiError):
    """The object, or its kind, does not exist."""

    reasons = ("NotFound",)
    codes = (404,)


class AlreadyExists(ApiError):
    """An object of this name exists already."""

    reasons = ("AlreadyExists",)


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition failed."""

    reasons = ("Conflict",)
    codes = (409,)

    @property
    def of_uid(self) -> bool:
        """Whether another object has the name now: any other conflict may end, and the request is repeated later."""
        text = str(self)
        return "UID" in text and "precondition" in text


class Gone(ApiError):
    """The resource version or continue token is too old: list again."""

    reasons = ("Expired", "Gone")
    codes = (410,)


class Invalid(ApiError):
    """The object, or the request itself, is invalid; the message names the field."""

    reasons = ("Invalid", "BadRequest")
    codes = (400, 422)


class Forbidden(ApiError):
    """This user may not do that, or admission rejected it."""

    reasons = ("Forbidden",)

    @property
    def of_quota(self) -> bool:
        """Whether a ResourceQuota of the namespace is used up."""
        return "exceeded quota" in self.message

    codes = (403,)


class Unauthorized(ApiError):
    """The server does not accept our credentials."""

    reasons = ("Unauthorized",)
    codes = (401,)


class TooManyRequests(ApiError):
    """The server is overloaded, or (for an eviction) a disruption budget allows no disruption; nothing was done."""

    reasons = ("TooManyRequests",)
    codes = (429,)


class ServerTimeout(ApiError):
    """The server did not finish in time; a write may have been applied."""

    reasons = ("ServerTimeout", "Timeout")
    codes = (504,)


class Unavailable(ApiError):
    """The server, or a proxy in front of it, is unavailable."""

    reasons = ("ServiceUnavailable",)
    codes = (502, 503)


_KINDS: tuple[type[ApiError], ...] = (
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    Forbidden,
    Unauthorized,
    TooManyRequests,
    ServerTimeout,
    Unavailable,
)
_BY_REASON = {reason: kind for kind in _KINDS for reason in kind.reasons}
_BY_CODE = {code: kind for kind in _KINDS for code in kind.codes}


def from_status(status: Status, retry_after: float | None = None) -> ApiError:
    """Return the exception for a Status object, its type by the reason, else by the code."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, ApiError)
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    return kind(status.code, status.reason, status.message, status.details, retry_after)


def from_response(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Return the exception for an unsuccessful HTTP response. The body need not be a Status: proxies send HTML."""
    try:
        status = decode(body, Status)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status":
        text = body[:300].decode("utf-8", "replace").strip()
        status = Status(message=f"HTTP status {code}" + (f": {text}" if text else ""))
    status.code = code
    return from_status(status, _seconds(retry_after))


def _seconds(header: str | None) -> float | None:
    """Return a Retry-After header in seconds; API servers never send its other form, a date."""
    return float(header) if header and header.strip().isdecimal() else None


def is_outage(fault: BaseException) -> bool:
    """Whether the server, or the way to it, failed: nothing is wrong with the request, and it is repeated soon."""
    return isinstance(fault, NoAnswer | Unreadable) or (
        isinstance(fault, ApiError) and (fault.code >= 500 or fault.code == 429)
    )


def describe(fault: BaseException) -> str:
    """Return the message of an error, never empty: time-outs of the standard library have none."""
    return str(fault) or type(fault).__name__
