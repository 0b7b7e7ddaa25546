"""``VolcanopyCluster``: the workers of a Dask cluster as gangs of pods; its scheduler runs in this program.

The model is dask-jobqueue: each job has a fixed number of workers, and ``scale`` and ``adapt`` add and end jobs.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster

from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import JobError
from volcanopy.client.sdk.job import Job
from volcanopy.client.sdk.tasks import Amount, amount

_PROGRAM = (
    "exec {python} -m distributed.cli.dask_worker {address} --no-nanny --no-dashboard"
    ' --nthreads {threads} --memory-limit {memory} --name {name}-"$VC_TASK_INDEX"'
)


class Workers(ProcessInterface):
    """The workers of one job, which start together. ``options`` are those of :class:`AsyncJob`."""

    def __init__(
        self, scheduler: str, name: Any, *, python: str, threads: int, count: int, prefix: str, **options: Any
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        memory = amount("memory", options["memory"])
        program = _PROGRAM.format(
            python=shlex.quote(python), address=scheduler, threads=threads, memory=_dask_memory(memory), name=name
        )
        self.job = AsyncJob(
            ["sh", "-c", program.replace("$", "$$")],
            name=f"{prefix}-{name}" if prefix else "",
            replicas=count,
            plugins=["env"],
            **options,
        )

    async def start(self) -> None:
        """Submit the job."""
        await self.job.submit()
        await super().start()

    async def close(self) -> None:
        """Terminate the job; Dask has retired its workers before."""
        if self.status is Status.running:
            try:
                await self.job.cancel("the Dask cluster ended these workers")
            except JobError:
                if await self.job.phase() not in {"Completed", "Failed", "Terminated"}:
                    raise
        await super().close()


def _dask_memory(memory: str) -> str:
    """Return a quantity as Dask writes it: ``4GiB`` for ``4Gi``."""
    return f"{memory}B" if memory[-1:].isalpha() else memory


class VolcanopyCluster(SpecCluster):
    """A Dask cluster whose workers are pods of jobs.

    A job has ``workers_per_job`` workers, which start together, each with ``cpu`` threads and ``memory``. Without ``image`` they
    are processes of this machine with this directory and environment. ``host`` is the address that pods reach this program
    at; by default Dask chooses it. ``name`` begins the names of the jobs. The cluster is that of ``kubeconfig``.
    """

    def __init__(
        self,
        n_workers: int = 0,
        *,
        workers_per_job: int = 1,
        image: str = "",
        python: str = "",
        cpu: int = 1,
        memory: Amount = "1Gi",
        gpus: int = 0,
        queue: str = "",
        name: str = "",
        host: str = "",
        namespace: str = "",
        kubeconfig: Path | str | None = None,
        **options: Any,
    ) -> None:
        job = {
            "image": image,
            "here": not image,
            "cpu": cpu,
            "memory": memory,
            "gpus": gpus,
            "queue": queue,
            "namespace": namespace,
            "kubeconfig": kubeconfig,
        }
        self._workers_per_job = workers_per_job
        worker = {
            "cls": Workers,
            "options": {
                **job,
                "python": python or ("python3" if image else sys.executable),
                "threads": cpu,
                "count": workers_per_job,
                "prefix": name,
            },
            "group": [f"-{index}" for index in range(workers_per_job)],
        }
        scheduler = {"cls": Scheduler, "options": {"host": host or None, "port": 0, "dashboard": False}}
        super().__init__(workers={}, scheduler=scheduler, worker=worker, name=name or None, **options)
        self._namespace, self._kubeconfig = namespace, kubeconfig
        if n_workers:
            self.scale(n_workers)

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale to the number of jobs that has at least ``n`` workers."""
        return super().scale(-(-n // self._workers_per_job), memory, cores)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of the workers, to explain why they wait."""
        names = [workers.job.name for workers in self.workers.values()]
        return [Job.attach(name, namespace=self._namespace, kubeconfig=self._kubeconfig) for name in names]
