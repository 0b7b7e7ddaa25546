"""A future of one call: its result, its exception, why it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from volcanopy.client.progress import progress
from volcanopy.client.sdk.connected import JobError
from volcanopy.client.sdk.tasks import check_types

if TYPE_CHECKING:
    from volcanopy.client.sdk.job import Job

T = TypeVar("T")


@dataclass(frozen=True)
class Element:
    """One index of a submission."""

    job: str
    index: int
    count: int


class FunctionJob(Future[T], Generic[T]):
    """A call that runs as a pod; used as a ``concurrent.futures.Future``, or awaited.

    ``job`` is the job of the call, which all calls of an array share; ``index`` is its place in it.
    """

    def __init__(self, element: Element, open_job: Callable[[str], Job], shows_progress: bool = False) -> None:
        super().__init__()
        self.element = element
        self._open_job, self._shows_progress = open_job, shows_progress
        self._phase, self._reason = "Pending", ""

    @property
    def job(self) -> Job:
        """The job, for its logs, explanation and pods."""
        return self._open_job(self.element.job)

    @property
    def index(self) -> int:
        """The index of the call in its array."""
        return self.element.index

    @property
    def state(self) -> str:
        """Phase of the pod of this call: Pending, Running, Succeeded or Failed; Cancelled."""
        return "Cancelled" if self.cancelled() else self._phase

    @property
    def reason(self) -> str:
        """Why the call does not run, or why it failed; empty for calls that run or have returned."""
        return self._reason

    def observe(self, phase: str, reason: str) -> None:
        """Take the phase of the pod, and why the call does not run."""
        self._phase, self._reason = phase, reason

    def result(self, timeout: float | None = None) -> T:
        """Return what the function returned, or raise what it raised.

        Raises TimeoutError with the reason why there is no result yet, and JobError where the pod ended without one.
        """
        check_types((int, float, NoneType), "seconds", timeout=timeout)
        try:
            with progress(lambda: str(self)) if self._shows_progress and not self.done() else nullcontext():
                return super().result(timeout)
        except TimeoutError:
            if self.done():
                raise  # the function raised it
            raise TimeoutError(f"{self}: no result after {timeout:g} s") from None

    def running(self) -> bool:
        """Return whether the pod runs."""
        return not self.done() and self._phase == "Running"

    def cancel(self) -> bool:
        """Terminate the job; return False for a call that has ended, or that shares its job with other calls."""
        if self.element.count > 1 or self.done():
            return self.cancelled()
        if not self.mark_cancelled():
            return False
        self.job.cancel("cancelled by its executor")
        return True

    def mark_cancelled(self) -> bool:
        """Make ``result`` raise CancelledError, and leave the job; return False for a call that has ended."""
        return super().cancel() and not self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in a coroutine."""
        waiting: Awaitable[T] = asyncio.wrap_future(self)
        return waiting.__await__()

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a call is not an argument of another one, as in Dask."""
        raise TypeError("it has a call: use its result()")

    def _repr_html_(self) -> str | None:
        """Show the call and its job in a notebook; as text where the job cannot be read."""
        try:
            job = self.job._repr_html_()
        except JobError:
            return None
        return job and f"<p>{escape(repr(self))}</p>{job}"

    def __repr__(self) -> str:
        call = self.element.job + (f"[{self.index}]" if self.element.count > 1 else "")
        return f"<FunctionJob {call}: {self.state}{': ' + self._reason if self._reason else ''}>"
