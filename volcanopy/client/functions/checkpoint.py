"""``Checkpoint``: the state of a program that may be evicted, and its request to continue in a new pod."""

import os
import pickle
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from volcanopy.client.functions import pod_program
from volcanopy.client.functions.pod_program import REQUEUE


class Checkpoint:
    """State of a program on a volume or in an object store, and whether the program is asked to end.

    ``location`` is a folder or a URL of fsspec; without it, that of the call which an Executor runs here, so that each call
    has its own. The first object in the main thread handles SIGTERM, which Kubernetes sends ``terminationGracePeriodSeconds``
    before it kills a pod.
    """

    def __init__(self, location: Path | str = "", name: str = "") -> None:
        self._location = str(location) or os.environ.get(pod_program.STORE, "")
        if not self._location:
            raise ValueError("location: name a folder or URL: this program does not run in a pod of an Executor")
        self._name = f"checkpoint-{name or os.environ.get(pod_program.INDEX, '0')}.pickle"
        self._requested = threading.Event()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._request)

    def _request(self, _signal: int, _frame: FrameType | None) -> None:
        self._requested.set()

    @property
    def requested(self) -> bool:
        """Whether SIGTERM has come: save the state, and call ``requeue``."""
        return self._requested.is_set()

    def load(self, default: Any = None) -> Any:
        """Return the state that was saved last; the default for the first run."""
        try:
            return pickle.loads(pod_program.read(self._location, self._name))
        except FileNotFoundError:
            return default

    def save(self, state: Any) -> None:
        """Replace the saved state as a whole; a kill in between leaves the earlier one."""
        pod_program.write(self._location, self._name, pickle.dumps(state))

    def requeue(self) -> NoReturn:
        """End the program so that its pod is created again: the next run continues with the saved state."""
        raise SystemExit(REQUEUE)
