"""``Job``: the methods of AsyncJob for programs without coroutines, and for notebooks."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import run
from volcanopy.kube.client.kinds import Json

P = ParamSpec("P")
T = TypeVar("T")


def _sync(method: Callable[Concatenate[AsyncJob, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Job, P], T]:
    """Return a method of AsyncJob for Job, which runs it to its end."""

    def call(self: Job, /, *arguments: P.args, **options: P.kwargs) -> T:
        return run(lambda: method(self._job, *arguments, **options))

    functools.update_wrapper(call, method)
    return call


class Job:
    """A job, to use in a program without coroutines; the arguments are those of :class:`AsyncJob`."""

    def __init__(self, command: Sequence[str] = (), **options: Any) -> None:
        self._job = AsyncJob(command, **options)

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
