"""``Job``: the methods of AsyncJob for programs without coroutines, and for notebooks."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import run
from volcanopy.kube.client.kinds import Json

if TYPE_CHECKING:
    from kubernetes.client import V1Pod


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

    def phase(self) -> str:
        """Return the phase. Raises JobError."""
        return run(self._job.phase)

    def wait(self, until: str = "completed", timeout: float = 3600.0) -> str:
        """Wait for a phase, or ``finished``; return the phase. Raises JobError when it cannot be reached any more."""
        return run(lambda: self._job.wait(until, timeout))

    def logs(self, tail: int | None = None) -> dict[str, str]:
        """Return the logs of the first container of every started pod, by pod name. Raises JobError."""
        return run(lambda: self._job.logs(tail))

    def pods(self) -> builtins.list[V1Pod]:
        """Return the pods as models of the package kubernetes, by name. Raises JobError."""
        return run(self._job.pods)

    def explain(self) -> str:
        """Return the sentence why the job does not run, or what became of it. Raises JobError."""
        return run(self._job.explain)

    def cancel(self, reason: str = "") -> None:
        """Terminate the job for good, and wait until nothing of it runs. Raises JobError."""
        run(lambda: self._job.cancel(reason))

    def __repr__(self) -> str:
        return repr(self._job).replace("AsyncJob", "Job", 1)

    def _repr_html_(self) -> str | None:
        return self._job._repr_html_()
