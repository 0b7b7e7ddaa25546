"""What users type first: kubectl run, create deployment, create job, on a whole embedded cluster."""

import asyncio
from pathlib import Path

from tests.controlplane.fixtures import kubectl_program
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.simulated.pod_stages import Stages

__all__ = ["kubectl_program"]

QUICK = Stages(start_delay=0.02, init_duration=0.02, durations=(0.1, 0.1), stop_delay=0.02)


async def test_run_create_deployment_and_create_job_work(kubectl_program: Path, tmp_path: Path) -> None:
    async with LocalCluster(2, parts=Parts(stages=QUICK)) as cluster:
        config = tmp_path / "kubeconfig"
        config.write_text(cluster.kubeconfig())

        async def kubectl(*arguments: str) -> str:
            process = await asyncio.create_subprocess_exec(
                kubectl_program,
                *arguments,
                env={"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert process.returncode == 0, output.decode()
            return output.decode()

        await kubectl("run", "one", "--image=i")
        await kubectl("create", "deployment", "web", "--image=i", "--replicas=3")
        await kubectl("create", "job", "once", "--image=i", "--", "true")
        await kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=60s")
        await kubectl("wait", "job/once", "--for=condition=Complete", "--timeout=60s")
        assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        await kubectl("set", "image", "deployment/web", "i=j")
        assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        images = await kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}")
        assert images.split() == ["j"] * 3
        await kubectl("scale", "deployment/web", "--replicas=1")
        await kubectl("wait", "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout=60s")
        await kubectl("delete", "deployment", "web")
        await kubectl("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")
