"""Metrics and logs of reviews, by webhook, operation, resource and verdict."""

import time
from collections.abc import Awaitable, Callable

import structlog

from volcanopy.admission.request import at
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.metrics import registry

log = structlog.get_logger(__name__)

ReviewHandler = Callable[[Json], Awaitable[Json]]
"""Returns the response to a review."""

_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_RESOURCES = frozenset(
    {"batchjobs", "commands", "cronbatchjobs", "hypernodes", "jobflows", "jobtemplates", "podgroups", "pods", "queues"}
)
_LONGEST = 253
"""Most characters of a name in logs."""


def measured(webhook: str, judge: ReviewHandler) -> ReviewHandler:
    """Return the handler with metrics and logs: rejections at level info, others at debug."""

    async def judged(body: Json) -> Json:
        begun, verdict, why = time.perf_counter(), "error", ""
        operation = _known(_OPERATIONS, at(body, "request", "operation"))
        resource = _known(_RESOURCES, at(body, "request", "resource", "resource"))
        with structlog.contextvars.bound_contextvars(review=_text(at(body, "request", "uid"))):
            try:
                answer = await judge(body)
                verdict, why = _verdict(answer)
            finally:
                registry.REVIEW_SECONDS.labels(webhook, operation).observe(time.perf_counter() - begun)
                registry.REVIEWS.labels(webhook, operation, resource, verdict).inc()
            name = "/".join(part for key in ("namespace", "name") if (part := _text(at(body, "request", key))))
            fields = {"webhook": webhook, "operation": operation, "resource": resource, "object": name}
            if verdict == "denied":
                log.info("request rejected", **fields, reason=why)
            else:
                log.debug("request reviewed", **fields, verdict=verdict)
        return answer

    return judged


def _known(known: frozenset[str], value: object) -> str:
    """Return a known value, else "other": requests must not create new series."""
    return value if isinstance(value, str) and value in known else "other"


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _verdict(answer: Json) -> tuple[str, str]:
    """Return the verdict, and the reason of a rejection."""
    response = answer["response"]
    if not response["allowed"]:
        return "denied", str(at(response, "status", "message") or "")
    return ("warned" if response.get("warnings") else "allowed"), ""
