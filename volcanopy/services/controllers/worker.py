"""Workers over a queue of keys, with patience: what goes wrong with one is told to people, and tried again after a pause."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from random import Random

from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, Invalid, KubeError, NotLeading
from volcanopy.services.controllers.effects import NameTakenError, OutdatedError
from volcanopy.services.controllers.reconcile_metrics import track_reconcile
from volcanopy.services.controllers.workqueue import WorkQueue

log = logging.getLogger(__name__)

LEAST_PAUSE = 0.05


class Worker(ABC):
    """Looks at one key at a time in each worker, and never at the same key in two."""

    noun = "key"
    """What a key stands for, in the log."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        self.client, self.recorder, self.now = client, recorder, now
        self.queue = WorkQueue(self.noun)
        self._random = Random()

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether there is anything behind a key."""

    @abstractmethod
    def subject(self, key: str) -> ObjectReference | None:
        """The object that people are told about when something goes wrong; None where there is none any more."""

    @abstractmethod
    async def attempt(self, key: str) -> datetime | None:
        """Do what is to be done; when to look again if nothing changes before."""

    def refused(self, key: str, fault: Exception) -> None:
        """The server said no to what was to be done, and will say it again."""
        return

    def succeeded(self, key: str) -> None:
        """All has been done."""
        return

    async def work(self) -> None:
        """One worker: take a key, do what is to be done; for ever."""
        while True:
            key = await self.queue.get()
            try:
                with track_reconcile(self.noun, key) as look:
                    look.outcome = await self._attempt(key)
            finally:
                self.queue.done(key)

    async def _attempt(self, key: str) -> str:
        """Try it; what came of it, in a word."""
        if not self.exists(key):
            self.queue.forget(key)
            return "done"
        try:
            again = await self.attempt(key)
        except NotLeading:
            raise  # there is nothing to be tried again: this process ends
        except OutdatedError:
            self.queue.add(key)
            return "outdated"
        except (KubeError, NameTakenError) as fault:
            if isinstance(fault, (Forbidden, Invalid, NameTakenError)):
                self.refused(key, fault)
            pause = self.queue.failed(key, self._random.random)
            self._warn(key, "FailedSync", str(fault))
            log.warning("%s %s is tried again in %.2f s: %s", self.noun, key, pause, fault)
            return "failed"
        except Exception:
            # A fault of ours in one object must not stop all others; it stays in the log and in the object's events.
            log.exception("%s %s could not be worked on", self.noun, key)
            self._warn(key, "InternalError", "the controller failed: see its log")
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
