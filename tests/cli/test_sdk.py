"""The Python SDK on a running cluster, and that importing the package stays cheap."""

import subprocess
import sys
from pathlib import Path

import pytest

from volcanopy import AsyncJob, Job, JobError


def test_a_job_is_submitted_awaited_explained_and_read(kubeconfig: Path) -> None:
    job = Job(["true"], image="busybox", cpu="100m", kubeconfig=kubeconfig).submit()
    assert job.name.startswith("job-")
    assert job.wait(timeout=60) == "Completed"
    assert job.phase() == "Completed"
    assert f'job "{job.name}" completed' in job.explain()
    assert list(job.logs()) == [f"{job.name}-main-0"]
    with pytest.raises(JobError, match="has ended: Completed"):
        job.cancel()


async def test_a_waiting_job_is_explained_and_cancelled(kubeconfig: Path) -> None:
    job = AsyncJob(["true"], name="too-large", image="busybox", cpu="64", kubeconfig=kubeconfig)
    with pytest.raises(JobError, match="the job is not submitted"):
        await AsyncJob(["true"], kubeconfig=kubeconfig).phase()
    await job.submit()
    assert 'job "too-large" is pending' in await job.explain()
    await job.cancel("not needed")
    assert await job.phase() == "Terminated"
    with pytest.raises(JobError, match='job "too-large" cannot become Completed'):
        await job.wait(timeout=30)


def test_invalid_values_are_named() -> None:
    with pytest.raises(JobError, match="--array: 'x' is invalid"):
        Job(["true"], array="x")


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    program = "import sys, volcanopy; print([name for name in sys.modules if name.startswith('volcanopy.')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
