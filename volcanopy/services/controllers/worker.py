"""Workers of a work queue: they reconcile one key at a time and retry failures with back-off."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from volcanopy.kube import machine
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Reflector, each_alone
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import AFTER_OUTAGE
from volcanopy.kube.client.errors import ApiError, Conflict, KubeError, NotLeading, is_outage
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.owned_objects import NameTakenError, OutdatedError, TerminatingError, is_rejection
from volcanopy.services.controllers.reconcile_metrics import track_reconcile
from volcanopy.services.controllers.workqueue import LONGEST_PAUSE, WorkQueue

log = structlog.get_logger(__name__)

LEAST_PAUSE = 0.05
USUAL_CONFLICT = 1.0
"""Seconds of back-off up to which errors that usually end soon are not reported.

These are a conflict (another client has changed the object, and its watch is behind), an object of an earlier owner that is being
deleted and, in a status, a webhook that cannot be called.
"""


class Followed(NamedTuple):
    """A watch that must be synced before reconciles start, its name in logs, and the function that takes its changes."""

    name: str
    watch: Reflector[Any] | OptionalReflector[Any]
    take: Callable[[Any], object]

    async def run(self) -> None:
        """Watch for ever."""
        await self.watch.run(each_alone(self.take))


class Worker(ABC):
    """Reconciles keys; several workers never reconcile the same key at the same time."""

    noun = "key"
    """The kind of object that a key names, for logs and metrics."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        self.client, self.recorder, self.now = client, recorder, now
        self.queue = WorkQueue(self.noun)
        self._random = machine.new_random()

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the kinds that users write and whose changes it needs."""
        return ()

    def event(self, event: str | None, manifest: Json) -> None:
        """Take an object of any of these kinds that was listed, added, changed or deleted."""
        return

    def followed(self) -> Sequence[Followed]:
        """Return the watches of its own."""
        return ()

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""

    @abstractmethod
    def subject(self, key: str) -> ObjectReference | None:
        """Return the object that gets the events about errors, None if it is gone."""

    @abstractmethod
    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile an object; returns the time of the next reconcile without a change before, if there is one."""

    def rejected(self, key: str, error: Exception) -> None:
        """Handle an error of the server that a retry will not change."""
        return

    def succeeded(self, key: str) -> None:
        """Handle a successful reconcile."""
        return

    async def work(self) -> None:
        """Run one worker, for ever."""
        while True:
            key = await self.queue.get()
            try:
                with track_reconcile(self.noun, key) as run:
                    run.outcome = await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: str) -> str:
        """Reconcile a key; returns the outcome for the metrics."""
        if not self.exists(key):
            self.queue.forget(key)
            return "done"
        try:
            again = await self.reconcile(key)
        except NotLeading:
            raise  # no retry: the process ends
        except OutdatedError:
            self.queue.add(key)
            return "outdated"
        except (KubeError, NameTakenError, TerminatingError) as error:
            if isinstance(error, ApiError) and error.namespace_is_deleted:
                self.queue.forget(key)  # the object that is reconciled is deleted soon, too: a retry has no use
                log.info("namespace is being deleted", kind=self.noun, key=key)
                return "done"
            longest = AFTER_OUTAGE if isinstance(error, TerminatingError) or is_outage(error) else LONGEST_PAUSE
            pause = self.queue.failed(key, self._random.random, longest)
            if isinstance(error, (Conflict, TerminatingError)) and pause < USUAL_CONFLICT:
                log.info("reconcile postponed", kind=self.noun, key=key, retry_in=round(pause, 2), error=str(error))
                return "outdated"
            if is_rejection(error) and (pause >= USUAL_CONFLICT or not is_outage(error)):
                self.rejected(key, error)
            self._warn(key, "FailedSync", str(error))
            log.warning("reconcile failed", kind=self.noun, key=key, retry_in=round(pause, 2), error=str(error))
            return "failed"
        except Exception:
            # An internal error with one object must not stop the others.
            log.exception("internal error in reconcile", kind=self.noun, key=key)
            self._warn(key, "InternalError", "internal error of the controller, see its log")
            self.queue.failed(key, self._random.random)
            return "error"
        self.queue.succeeded(key)
        self.succeeded(key)
        if again is not None:
            self.queue.add(key, max((again - self.now()).total_seconds(), LEAST_PAUSE))
        return "done"

    def _warn(self, key: str, reason: str, message: str) -> None:
        subject = self.subject(key)
        if subject is not None:
            self.recorder.record(subject, "Warning", reason, message)
