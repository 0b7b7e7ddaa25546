"""``Job``: the methods of AsyncJob for programs without coroutines, and for notebooks."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import run
from volcanopy.kube.client.kinds import Json

P = ParamSpec("P")
T = TypeVar("T")


def _as_of(
    method: Callable[Concatenate[AsyncJob, P], Any], call: Callable[Concatenate[Job, P], T]
) -> Callable[Concatenate[Job, P], T]:
    """Return a method of Job with the signature and docstring of AsyncJob's. A wrong argument is a TypeError that names Job."""
    signature, name = inspect.signature(method), method.__qualname__.replace("AsyncJob", "Job", 1)

    def checked(self: Job, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            signature.bind(self, *arguments, **options)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return call(self, *arguments, **options)

    functools.update_wrapper(checked, method).__qualname__ = name
    return checked


def _sync(method: Callable[Concatenate[AsyncJob, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Job, P], T]:
    """Return a method of AsyncJob for Job, which runs it to its end."""

    def call(self: Job, /, *arguments: P.args, **options: P.kwargs) -> T:
        return run(lambda: method(self._job, *arguments, **options))

    return _as_of(method, call)


def _with_arguments_of(
    init: Callable[Concatenate[AsyncJob, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Job, P], None]]:
    """Return the decorator of the constructor, which takes the arguments of AsyncJob's."""

    def construct(self: Job, /, *arguments: P.args, **options: P.kwargs) -> None:
        self._job = AsyncJob.__new__(AsyncJob)
        init(self._job, *arguments, **options)

    return lambda _: _as_of(init, construct)


class Job:
    """A job, to use in a program without coroutines; the arguments are those of :class:`AsyncJob`."""

    _job: AsyncJob

    @_with_arguments_of(AsyncJob.__init__)
    def __init__(self) -> None:
        pass

    @classmethod
    def _of(cls, job: AsyncJob) -> Job:
        self = cls.__new__(cls)
        self._job = job
        return self

    @classmethod
    def attach(cls, name: str, *, namespace: str = "", kubeconfig: Path | str | None = None) -> Job:
        """Return a job that exists. Raises JobError."""
        return cls._of(run(lambda: AsyncJob.attach(name, namespace=namespace, kubeconfig=kubeconfig)))

    @classmethod
    def list(
        cls, *, queue: str = "", phase: str = "", namespace: str = "", kubeconfig: Path | str | None = None
    ) -> builtins.list[Job]:
        """Return the jobs of the namespace by name, those of one queue or phase if given. Raises JobError."""
        jobs = run(lambda: AsyncJob.list(queue=queue, phase=phase, namespace=namespace, kubeconfig=kubeconfig))
        return [cls._of(job) for job in jobs]

    @property
    def name(self) -> str:
        """Name of the job; empty before it is submitted without one."""
        return self._job.name

    @property
    def last_phase(self) -> str:
        """The phase at the last request; empty before the first."""
        return self._job.last_phase

    @property
    def manifest(self) -> Json:
        """The BatchJob that is submitted."""
        return self._job.manifest

    def submit(self) -> Job:
        """Create the job; return it. Raises JobError."""
        run(self._job.submit)
        return self

    phase = _sync(AsyncJob.phase)
    wait = _sync(AsyncJob.wait)
    logs = _sync(AsyncJob.logs)
    pods = _sync(AsyncJob.pods)
    explain = _sync(AsyncJob.explain)
    cancel = _sync(AsyncJob.cancel)

    def __repr__(self) -> str:
        return repr(self._job).replace("AsyncJob", "Job", 1)

    def _repr_html_(self) -> str | None:
        return self._job._repr_html_()
