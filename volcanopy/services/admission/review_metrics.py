"""Reviews as they are counted, timed and logged: by the webhook, what was to be done with which resource, and the verdict."""

import logging
import time
from collections.abc import Awaitable, Callable

import structlog

from volcanopy.admission.request import at
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.metrics import registry

log = logging.getLogger(__name__)

ReviewHandler = Callable[[Json], Awaitable[Json]]
"""Gives the answer to a review."""

_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_RESOURCES = frozenset(
    {
        "batchjobs",
        "commands",
        "cronbatchjobs",
        "hypernodes",
        "jobflows",
        "jobtemplates",
        "podgroups",
        "pods",
        "queues",
    }
)
_LONGEST = 253
"""Characters of a name that are logged."""


def measured(webhook: str, judge: ReviewHandler) -> ReviewHandler:
    """The same answers, counted, timed and logged: refusals as such, all others only when everything is."""

    async def judged(body: Json) -> Json:
        begun, verdict, why = time.perf_counter(), "error", ""
        operation = _one_of(_OPERATIONS, at(body, "request", "operation"))
        resource = _one_of(_RESOURCES, at(body, "request", "resource", "resource"))
        with structlog.contextvars.bound_contextvars(review=_text(at(body, "request", "uid"))):
            try:
                answer = await judge(body)
                verdict, why = _verdict(answer)
            finally:
                registry.REVIEW_SECONDS.labels(webhook, operation).observe(time.perf_counter() - begun)
                registry.REVIEWS.labels(webhook, operation, resource, verdict).inc()
            name = "/".join(part for key in ("namespace", "name") if (part := _text(at(body, "request", key))))
            level = logging.INFO if verdict == "denied" else logging.DEBUG
            log.log(level, "%s %s %s %s: %s%s", webhook, operation, resource, name, verdict, why and f": {why}")
        return answer

    return judged


def _one_of(known: frozenset[str], said: object) -> str:
    """What is said if it is known: labels must not be had by the thousand from whoever sends reviews."""
    return said if isinstance(said, str) and said in known else "other"


def _text(said: object) -> str:
    return said[:_LONGEST] if isinstance(said, str) else ""


def _verdict(answer: Json) -> tuple[str, str]:
    """The verdict, and why it was refused if it was."""
    response = answer["response"]
    if not response["allowed"]:
        return "denied", str(at(response, "status", "message") or "")
    return ("warned" if response.get("warnings") else "allowed"), ""
