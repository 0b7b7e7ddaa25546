"""Airflow's own KubernetesPodOperator against volcanopy: `make airflow-client` installs it in an environment of its own."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.clients.interpreters import interpreter
from tests.clients.servers import SECONDS, StartServer, on_both_servers, reason_to_wait
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy_local.cluster import Parts
from volcanopy_local.simulated import nodes

PYTHON = interpreter("AIRFLOW_PYTHON", "airflow")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="needs AIRFLOW_PYTHON, a Python with Airflow's provider cncf.kubernetes: `make airflow-client`"
)
TASK = """
import sys
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
_, name, kubeconfig = sys.argv
notes = {"scheduling.k8s.io/group-name": "nightly", "sim.volcanopy.io/duration": "1s"}
container = {"name": "base", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": notes}}
pod["spec"] = {"schedulerName": "volcano", "containers": [container]}
operator = KubernetesPodOperator(
    task_id=name, name=name, pod_template_dict=pod, config_file=kubeconfig, in_cluster=False, kubernetes_conn_id=None,
    namespace="default", startup_timeout_seconds=600,
)
requested = operator.build_pod_request_obj()
operator.pod_manager.create_pod(requested)
operator.await_pod_start(requested)
ended = operator.pod_manager.await_pod_completion(requested, container_name="base")
print("phase", ended.status.phase)
"""
"""What the operator does when Airflow executes a task, without Airflow's database."""


async def run_task(name: str, folder: Path) -> str:
    """Run a task in a process of its own; returns its output."""
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "-c", TASK, name, str(folder / "kubeconfig")),
        env=os.environ | {"AIRFLOW_HOME": str(folder / "airflow")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.slow("starts two tasks of Airflow, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
async def test_two_tasks_of_airflow_in_one_pod_group_start_together(start: StartServer, tmp_path: Path) -> None:
    group: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "nightly"}}
    group |= {"spec": {"minMember": 2, "queue": "default"}}
    groups = bound(POD_GROUPS, VOLCANO)
    async with start(nodes.manifests(2), Parts(api="both")) as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig)
        await Creator(server.client).create([group])
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            first = tasks.create_task(run_task("train-a", tmp_path))
            await server.until(groups, lambda groups: reason_to_wait(groups) == "1/2 required pods created")
            second = tasks.create_task(run_task("train-b", tmp_path))
        assert all("phase Succeeded" in task.result() for task in (first, second))
        pods = (await server.client.list(PODS, "default")).items
        assert [pod["spec"]["schedulerName"] for pod in pods] == ["volcano"] * 2
        observed = await server.client.get(groups, "default", "nightly")
        assert observed["status"]["conditions"][0]["reason"] == "GangReady"
