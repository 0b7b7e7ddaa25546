"""What the README has a person type, on both servers: each answers as on any cluster."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.e2e.world import EXAMPLES, World

WITHIN = "60s"


class Terminal:
    """A person's kubectl: what it prints, and that it succeeds."""

    def __init__(self, program: Path, cluster: World, home: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(home)}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Begin a command that goes on."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment
        )

    async def __call__(self, *arguments: str, given: str = "", status: int = 0) -> str:
        process = await self.start(*arguments)
        output, errors = await process.communicate(given.encode())
        assert process.returncode == status, f"kubectl {' '.join(arguments)}: {errors.decode()}{output.decode()}"
        return (errors if status else output).decode()


@pytest.fixture
def kubectl(kubectl_program: Path, cluster: World, tmp_path: Path) -> Terminal:
    return Terminal(kubectl_program, cluster, tmp_path)


async def test_a_job_is_applied_watched_described_awaited_and_deleted(kubectl: Terminal) -> None:
    watching = await kubectl.start("get", "bj", "-w")
    assert watching.stdout is not None
    assert await kubectl("apply", "-f", str(EXAMPLES / "02-gang")) == "batchjob.batch.volcanopy.io/training created\n"
    await kubectl("wait", "--for=jsonpath={.status.state.phase}=Running", "bj/training", f"--timeout={WITHIN}")
    listed = await kubectl("get", "bj,pg,q")
    assert "batchjob.batch.volcanopy.io/training" in listed
    assert "podgroup.scheduling.volcanopy.io/training-" in listed
    assert "queue.scheduling.volcanopy.io/default" in listed
    heading = next(line for line in listed.splitlines() if line.startswith("NAME"))
    assert heading.split()[:4] == ["NAME", "PHASE", "MIN", "RUNNING"]
    described = await kubectl("describe", "bj", "training")
    assert "Phase:" in described
    assert "volcanopy-controller" in described
    await kubectl("wait", "--for=jsonpath={.status.state.phase}=Completed", "bj/training", f"--timeout={WITHIN}")
    seen = ""
    async with asyncio.timeout(20):
        while "Completed" not in seen:
            seen += (await watching.stdout.readline()).decode()
    watching.terminate()
    await watching.wait()
    assert [phase for phase in ("Pending", "Running", "Completed") if phase in seen] == [
        "Pending",
        "Running",
        "Completed",
    ]
    assert "unchanged" in await kubectl("apply", "-f", str(EXAMPLES / "02-gang"))
    assert "deleted" in await kubectl("delete", "bj", "training")
    await kubectl("wait", "--for=delete", "pod", "--all", f"--timeout={WITHIN}")
    assert await kubectl("get", "bj", "-o", "name") == ""


async def test_explain_tells_what_a_field_is_for(kubectl: Terminal) -> None:
    told = await kubectl("explain", "batchjob.spec.tasks")
    assert "minAvailable" in told
    assert "How many of them must run for the job to run" in told


async def test_server_side_apply_and_dry_run_work_on_jobs(kubectl: Terminal) -> None:
    manifest = str(EXAMPLES / "01-hello")
    assert "serverside-applied (server dry run)" in await kubectl(
        "apply", "--server-side", "--dry-run=server", "-f", manifest
    )
    assert "not found" in await kubectl("get", "bj", "hello", status=1)
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", manifest)
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", manifest)


async def test_a_manifest_with_a_misspelt_field_is_refused_by_name(kubectl: Terminal) -> None:
    manifest = (EXAMPLES / "01-hello" / "job.yaml").read_text().replace("replicas:", "replcas:")
    refusal = await kubectl("apply", "-f", "-", given=manifest, status=1)
    assert 'unknown field "spec.tasks[0].replcas"' in refusal
