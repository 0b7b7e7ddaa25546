"""Handlers of kopf for jobs, queues and pods, with typed objects: the base of an operator around volcanopy.

A handler is called with ``job``, ``queue`` or ``pod`` besides the arguments that kopf passes, so it takes ``**_``. kopf calls
it again after an error, and stores in an annotation of the object what it has handled, so a change during a restart of the
operator is not missed. Run a file of handlers with ``kopf run --all-namespaces FILE``. A coroutine runs on kopf's event loop,
a function in a thread.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import kopf

from volcanopy.api import names
from volcanopy.api.batch import Phase
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.bindings import BINDINGS, Binding
from volcanopy.api.core import Pod, Queue
from volcanopy.api.decoding import convert
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS, PODS, QUEUES, bound

__all__ = ["job_evicted", "job_phase", "pod_failed", "queue_changed", "queue_timer"]

Handler = TypeVar("Handler", bound=Callable[..., Any])
_QUEUE_FIELDS = frozenset({"spec", "status", "metadata"})


def job_phase(
    *phases: str, api: str = names.API, registry: kopf.OperatorRegistry | None = None
) -> Callable[[Handler], Handler]:
    """Call a handler with each ``job`` that has reached one of these phases, such as ``"Completed"``.

    ``api`` is the API of the jobs, "volcanopy" or "volcano". When an operator runs for the first time, the handler gets the
    jobs that are in the phase already. Raises ValueError for an unknown phase or API.
    """
    if not phases:
        raise ValueError(f"job_phase: name at least one phase: {', '.join(Phase)}")
    for phase in phases:
        if phase not in list(Phase):
            raise ValueError(f"job_phase: {phase!r} is not a phase of a job: use {', '.join(Phase)}")

    def reached(value: Any, **_: Any) -> bool:
        return value in phases

    kind = bound(JOBS, _binding(api))
    return _on_field(kind, "job", BatchJob, field="status.state.phase", new=reached, registry=registry)


def job_evicted(*, api: str = names.API, registry: kopf.OperatorRegistry | None = None) -> Callable[[Handler], Handler]:
    """Call a handler with each ``job`` of which pods were evicted: ``job.status.evictions`` states when, by whom and how many."""
    kind = bound(JOBS, _binding(api))
    return _on_field(kind, "job", BatchJob, field="status.evictions", new=kopf.PRESENT, registry=registry)


def queue_changed(
    field: str = "spec", *, api: str = names.API, registry: kopf.OperatorRegistry | None = None
) -> Callable[[Handler], Handler]:
    """Call a handler with each ``queue`` of which a field has changed, such as ``"spec.capability"`` or ``"status.state"``.

    kopf passes the values of the field as ``old`` and ``new``; a queue that is seen for the first time has no old one.
    """
    if field.partition(".")[0] not in _QUEUE_FIELDS:
        raise ValueError(
            f"queue_changed: field {field!r}: begin with spec, status or metadata, as in 'spec.capability'"
        )
    return _on_field(bound(QUEUES, _binding(api)), "queue", Queue, field=field, registry=registry)


def queue_timer(
    interval: float, *, api: str = names.API, registry: kopf.OperatorRegistry | None = None
) -> Callable[[Handler], Handler]:
    """Call a handler with each ``queue`` all ``interval`` seconds; what it sets in kopf's ``patch`` is written to the queue.

    kopf adds a finalizer to the queues: they are deleted only while the operator runs.
    """
    if interval <= 0:
        raise ValueError(f"queue_timer: interval {interval:g}: give more than 0 seconds")
    kind = bound(QUEUES, _binding(api))

    def decorate(handler: Handler) -> Handler:
        kopf.timer(kind.group, kind.version, kind.plural, interval=interval, registry=registry)(
            _typed(handler, "queue", Queue)
        )
        return handler

    return decorate


def pod_failed(*, api: str = names.API, registry: kopf.OperatorRegistry | None = None) -> Callable[[Handler], Handler]:
    """Call a handler with each ``pod`` of a job that has failed; the labels of the pod name its job and task."""
    labels = {_binding(api).key(names.JOB_NAME): kopf.PRESENT}
    return _on_field(PODS, "pod", Pod, field="status.phase", new="Failed", labels=labels, registry=registry)


def _binding(api: str) -> Binding:
    bindings = {binding.name: binding for binding in BINDINGS}
    if api not in bindings:
        raise ValueError(f"api {api!r}: use {' or '.join(bindings)}")
    return bindings[api]


def _on_field(kind: Kind[Json], name: str, shape: type[Any], **options: Any) -> Callable[[Handler], Handler]:
    """Return the decorator that calls a handler when kopf's ``on.field`` with these options does."""

    def decorate(handler: Handler) -> Handler:
        kopf.on.field(kind.group, kind.version, kind.plural, **options)(_typed(handler, name, shape))
        return handler

    return decorate


def _typed(handler: Callable[..., Any], name: str, shape: type[Any]) -> Callable[..., Any]:
    """Return a handler that gets kopf's ``body`` as an object of a type besides, under a name."""

    def read(body: Mapping[str, Any]) -> Any:
        return convert(dict(body), shape)

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def call(*, body: Mapping[str, Any], **arguments: Any) -> Any:
            return await handler(body=body, **{**arguments, name: read(body)})

        return call

    @functools.wraps(handler)
    def call_in_thread(*, body: Mapping[str, Any], **arguments: Any) -> Any:
        return handler(body=body, **{**arguments, name: read(body)})

    return call_in_thread
