"""Notes on standard error about a job that a command follows: why it waits, when that changes, and when it starts."""

import sys
from collections.abc import Callable

from volcanopy.api.batch_read import BatchJob
from volcanopy.client.durations import current_time
from volcanopy.client.jobs.status import estimated_start, message, phase, reason, starts_soon
from volcanopy.kube.client.printable import printable

_WAITING = frozenset({"Pending", "Restarting"})


class WaitNotes:
    """Notes about one job; ``observe`` is called with each of its states."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to_stderr
        self._noted = ""

    def observe(self, job: BatchJob, *, patient: bool = True) -> None:
        """Note why the job waits if that has changed, or that it has started; not ``patient``: it has waited for long."""
        name, text = job.metadata.name, " ".join(reason(job).split()) or "its pods are starting"
        if phase(job) in _WAITING:
            if (patient and starts_soon(job)) or text == self._noted:
                return
            self._noted = text
            estimate = job.status.estimated_start
            start = estimated_start(estimate, current_time()) if estimate is not None and estimate.time else ""
            self._write(f'job "{name}" waits: {text}' + (f"; estimated start {start}" if start else ""))
        elif phase(job) == "Running" and self._noted:
            self._noted = ""
            self._write(f'job "{name}" has started: {message(job)}')


def _to_stderr(text: str) -> None:
    sys.stdout.flush()
    print(f"volcanopy: {printable(text)}", file=sys.stderr, flush=True)
