"""Prefect's worker of the type ``volcanopy``: ``prefect worker start --pool POOL --type volcanopy``.

Each flow run of a work pool is a BatchJob of one pod, which runs Prefect's engine. Without an image pods are processes of this
machine, with the directory and environment of the worker.
"""

import shlex
import sys
from typing import Any

from anyio.abc import TaskStatus
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import InfrastructureNotFound
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult
from pydantic import Field

from volcanopy.client.jobs.job_names import new_name
from volcanopy.client.jobs.status import FINISHED
from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import JobError

_YEARS = 10 * 365 * 86400.0


class VolcanopyJobConfiguration(BaseJobConfiguration):  # type: ignore[misc]
    """What the pod of a flow run is made of."""

    image: str = Field(default="", description="Image with Prefect; without it pods are processes of this machine.")
    cpu: str = Field(default="1", description="CPUs of the pod.")
    memory: str = Field(default="512Mi", description="Memory of the pod.")
    gpus: int = Field(default=0, description="GPUs of the pod.")
    queue: str = Field(default="", description="Queue of the job.")


class VolcanopyVariables(BaseVariables):  # type: ignore[misc]
    """The same, as variables of a work pool and its deployments."""

    image: str = VolcanopyJobConfiguration.model_fields["image"]
    cpu: str = VolcanopyJobConfiguration.model_fields["cpu"]
    memory: str = VolcanopyJobConfiguration.model_fields["memory"]
    gpus: int = VolcanopyJobConfiguration.model_fields["gpus"]
    queue: str = VolcanopyJobConfiguration.model_fields["queue"]


class VolcanopyWorkerResult(BaseWorkerResult):  # type: ignore[misc]
    """The job of a flow run, and 0 if it is Completed."""


class VolcanopyWorker(BaseWorker):  # type: ignore[misc]
    """Submits to the cluster of kubectl."""

    type = "volcanopy"
    job_configuration = VolcanopyJobConfiguration
    job_configuration_variables = VolcanopyVariables
    _description = "Execute flow runs as batch jobs of volcanopy."
    _display_name = "volcanopy"

    async def run(
        self, flow_run: FlowRun, configuration: VolcanopyJobConfiguration, task_status: TaskStatus[str] | None = None
    ) -> VolcanopyWorkerResult:
        """Submit the job of a flow run, and wait until it has ended."""
        job = _job(configuration)
        await job.submit()
        if task_status is not None:
            task_status.started(job.name)
        logger = self.get_flow_run_logger(flow_run)
        logger.info(await job.explain())
        try:
            await job.wait(timeout=_YEARS)
        except JobError as error:
            if job.last_phase not in FINISHED:
                raise
            logger.error(str(error))
        return VolcanopyWorkerResult(identifier=job.name, status_code=int(job.last_phase != "Completed"))

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: VolcanopyJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Terminate the job of a cancelled flow run."""
        try:
            await (await AsyncJob.attach(infrastructure_pid)).cancel("cancelled by Prefect")
        except JobError as error:
            raise InfrastructureNotFound(str(error)) from None


def _job(configuration: VolcanopyJobConfiguration) -> AsyncJob:
    image: Any = configuration.image
    command = shlex.split(configuration.command)
    if not image and command[0] == "prefect":
        command = [sys.executable, "-m", *command]
    return AsyncJob(
        command,
        name=new_name(configuration.name or "", "flow-run"),
        image=image,
        here=not image,
        cpu=configuration.cpu,
        memory=configuration.memory,
        gpus=configuration.gpus,
        queue=configuration.queue,
        env={name: value for name, value in configuration.env.items() if value is not None},
    )
