"""What a user types: kubectl on a cluster at work, with the answers of any other cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.e2e.world import EXAMPLES, World

Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture
def kubectl(kubectl_program: Path, cluster: World, tmp_path: Path) -> Kubectl:
    """Runs kubectl in the test's namespace; gives what it printed, of a command that ended well."""
    everywhere = (f"--kubeconfig={cluster.kubeconfig}", f"--cache-dir={tmp_path / 'cache'}", "--request-timeout=120s")

    async def run(*arguments: str, status: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            kubectl_program, *everywhere, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        printed, _ = await process.communicate()
        assert process.returncode == status, printed.decode()
        return printed.decode()

    return run


async def test_a_job_from_apply_to_delete(kubectl: Kubectl) -> None:
    applied = await kubectl("apply", "-f", str(EXAMPLES / "02-gang"))
    assert applied == "batchjob.batch.volcanopy.io/training created\n"
    await kubectl("wait", "bj/training", "--for=jsonpath={.status.state.phase}=Running", "--timeout=60s")

    jobs = (await kubectl("get", "bj")).splitlines()
    assert jobs[0].split() == ["NAME", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED", "QUEUE", "AGE"]
    assert jobs[1].split()[:3] == ["training", "Running", "4"]
    assert "training" in await kubectl("get", "pg")
    assert {line.split()[0] for line in (await kubectl("get", "q")).splitlines()} >= {"NAME", "default", "root"}
    described = await kubectl("describe", "bj", "training")
    assert "Phase:" in described
    assert "Events:" in described

    await kubectl("wait", "bj/training", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=60s")
    pods = (await kubectl("get", "pods", "--no-headers")).splitlines()
    assert sorted(line.split()[0] for line in pods) == ["training-ps-0", *(f"training-worker-{n}" for n in range(3))]
    assert {line.split()[2] for line in pods} == {"Completed"}
    deleted = await kubectl("delete", "-f", str(EXAMPLES / "02-gang"), "--wait")
    # kubectl 1.37 names the namespace as well.
    assert deleted.partition(" from ")[0].rstrip() == 'batchjob.batch.volcanopy.io "training" deleted'
    await kubectl("wait", "--for=delete", "pods", "--all", "--timeout=60s")
    assert "NotFound" in await kubectl("get", "bj", "training", status=1)


async def test_kubectl_explain_describes_the_fields(kubectl: Kubectl) -> None:
    explained = await kubectl("explain", "batchjob.spec.tasks")
    assert "Number of pods. Defaults to 1." in explained
    assert "minAvailable" in explained
    assert "List of containers" in await kubectl("explain", "batchjob.spec.tasks.template.spec.containers")


async def test_an_unknown_field_is_rejected_by_apply(kubectl: Kubectl, tmp_path: Path) -> None:
    wrong = (EXAMPLES / "01-hello" / "job.yaml").read_text().replace("replicas:", "replica:")
    (tmp_path / "wrong.yaml").write_text(wrong)
    said = await kubectl("apply", "-f", str(tmp_path / "wrong.yaml"), status=1)
    assert 'unknown field "spec.tasks[0].replica"' in said
