"""The cluster of an object of the SDK, and the errors and warnings that a program sees."""

import asyncio
import re
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from volcanopy.client.errors import CommandError, cluster_error
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS

T = TypeVar("T")
_OPTION = re.compile(r"(?<!\S)--([a-z][a-z-]*)")
"""An option of the command line in a message: its name is that of the argument."""


class JobError(Exception):
    """The request was rejected, the job ended otherwise than awaited, or the time is over; the message is the reason."""


class AdmissionWarning(UserWarning):
    """A warning of the API server or of admission about an object that it accepted."""


@contextmanager
def job_errors() -> Iterator[None]:
    """Raise errors of commands and of the API as JobError."""
    try:
        yield
    except (CommandError, KubeError) as error:
        raise JobError(_OPTION.sub(_argument, str(cluster_error(error) or error))) from None


def _argument(option: re.Match[str]) -> str:
    return "minimum" if option[1] == "min" else option[1]


class Connected:
    """The cluster of ``kubeconfig``, by default that of kubectl, and a namespace, by default that of the context."""

    def __init__(self, namespace: str, kubeconfig: Path | str | None) -> None:
        self.namespace = namespace
        self.kubeconfig = Path(kubeconfig) if kubeconfig is not None else None
        self._connection: Connection | None = None

    async def load(self) -> Connection:
        """Return the connection, read once. Raises JobError."""
        if self._connection is None:
            with job_errors():
                self._connection = await asyncio.to_thread(load_connection, self.kubeconfig)
            self.namespace = self.namespace or self._connection.namespace
        return self._connection

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open a client, whose errors are raised as JobError."""
        await self.load()
        with job_errors():
            async with self.new_client() as client:
                yield client

    def new_client(self) -> Client:
        """Return a client of the loaded connection."""
        assert self._connection is not None
        return Client(self._connection, on_warning=_warn)

    async def create(self, body: Json) -> Json:
        """Create a job. Raises JobError."""
        async with self.client() as client:
            return await client.create(JOBS, self.namespace, body)


def _warn(text: str) -> None:
    """Warn without a line of a program: the request may be one of another thread."""
    warnings.warn_explicit(text, AdmissionWarning, "volcanopy", 0)


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, in a thread of its own where this one runs an event loop, as notebooks do."""
    try:
        if not _has_event_loop():
            return asyncio.run(work())
        return ThreadPoolExecutor(1).submit(asyncio.run, work()).result()
    except JobError as error:
        raise error.with_traceback(None) from None  # the message is the whole reason
