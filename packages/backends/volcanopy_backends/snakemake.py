"""Snakemake's executor ``volcanopy``: ``snakemake --executor volcanopy --jobs 10``.

Each job of a workflow is a BatchJob whose pod runs Snakemake on the working directory, or with a storage provider. Threads and
the resources ``mem_mb``, ``gpu``, ``runtime`` (minutes) and ``queue`` of a rule are those of the pod.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase, SharedFSUsage

from volcanopy.client.functions.storage import Storage, mount
from volcanopy.client.jobs.job_names import new_name
from volcanopy.client.jobs.program import literal
from volcanopy.client.jobs.status import FINISHED
from volcanopy.client.sdk.async_job import AsyncJob
from volcanopy.client.sdk.connected import JobError
from volcanopy.client.sdk.job import Job

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=True)
_SNAKEMAKE = 250
"""Megabytes that Snakemake itself takes in the pod, beside those of the rule."""


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of Snakemake: ``--volcanopy-image`` and so on."""

    image: str = field(
        default="", metadata={"help": "Image with Snakemake; without it pods are processes of this machine"}
    )
    claim: str = field(
        default="", metadata={"help": "PersistentVolumeClaim with the working directory, mounted at the same path"}
    )
    queue: str = field(default="", metadata={"help": "Queue of rules without the resource `queue`"})


class Executor(RemoteExecutor):
    """Submits to the cluster of kubectl."""

    def __post_init__(self) -> None:
        """Raise WorkflowError for an image whose pods cannot see the files."""
        settings, shared = self.workflow.executor_settings, self.workflow.storage_settings.shared_fs_usage
        if settings.image and SharedFSUsage.INPUT_OUTPUT in shared and not settings.claim:
            raise WorkflowError(
                "--volcanopy-claim: name the PersistentVolumeClaim with the working directory, or use a storage provider "
                "with --shared-fs-usage none"
            )

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job of the workflow; one that is rejected has failed, as others may run and go on."""
        try:
            name = self._job(job).submit().name
        except JobError as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"{error}\n")
            return
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=name))

    def _job(self, job: JobExecutorInterface) -> Job:
        settings, resources = self.workflow.executor_settings, job.resources
        submission = Job(
            ["sh", "-c", literal(self.format_job_exec(job))],
            name=new_name(f"snakemake-{job.name}", "snakemake"),
            image=settings.image,
            here=not settings.image,
            cpu=max(1, job.threads),
            memory=f"{int(resources.get('mem_mb', 750)) + _SNAKEMAKE}M",
            gpus=int(resources.get("gpu", 0)),
            queue=str(resources.get("queue", settings.queue)),
            deadline=f"{60 * int(minutes)}s" if (minutes := resources.get("runtime")) else "",
        )
        spec = submission.manifest["spec"]
        if settings.claim:
            mount(spec["tasks"][0]["template"]["spec"], Storage(str(Path.cwd()), settings.claim))
            spec["tasks"][0]["template"]["spec"]["containers"][0]["workingDir"] = str(Path.cwd())
        return submission

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others; reads all with one request."""
        jobs = {job.name: job for job in await AsyncJob.list()} if active_jobs else {}
        for info in active_jobs:
            job = jobs.get(str(info.external_jobid))
            if job is None:
                self.report_job_error(info, msg=f'job "{info.external_jobid}" was deleted. ')
            elif job.last_phase == "Completed":
                self.report_job_success(info)
            elif job.last_phase in FINISHED:
                self.report_job_error(info, msg=await _reason(job))
            else:
                yield info

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Terminate jobs, all at a time."""
        asyncio.run(_cancel([str(info.external_jobid) for info in active_jobs]))


async def _reason(job: AsyncJob) -> str:
    """Return why a job that has ended failed, with the end of its log."""
    try:
        return await job.wait()
    except JobError as error:
        return f"{error}\n"


async def _cancel(names: list[str]) -> None:
    async def cancel(name: str) -> None:
        with suppress(JobError):  # it has ended
            await (await AsyncJob.attach(name)).cancel("cancelled by Snakemake")

    await asyncio.gather(*(cancel(name) for name in names))
