"""Spark's own `spark-submit` with its feature step for Volcano, against volcanopy: `make spark-client` builds its jars.

The driver and the executors of the embedded cluster are programs of this machine, so that Spark computes; on the real API server
the nodes are simulated.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.controlplane.fixtures import need_programs
from tests.controlplane.plane import ControlPlane
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import BINDINGS, VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy.local.cluster import Components, LocalCluster, Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.process import machine
from volcanopy.local.process.kubelet import ProcessSettings
from volcanopy.local.simulated import nodes

JARS = os.environ.get("SPARK_JARS", "")
pytestmark = pytest.mark.skipif(
    not (JARS and shutil.which("java")), reason="needs Java, and SPARK_JARS: `make spark-client` builds them"
)
STEP = "org.apache.spark.deploy.k8s.features.VolcanoFeatureStep"
GROUPS = bound(POD_GROUPS, VOLCANO)
SECONDS = 600
"""Time for a submission: a Java program that starts three more."""
OPENED = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.lang.invoke",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "sun.nio.ch",
    )
)
ENTRYPOINT = f"""\
role=$1; shift
if [ "$role" = driver ]; then
  set -- org.apache.spark.deploy.SparkSubmit --conf spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS --deploy-mode client "$@"
else
  set -- org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url $SPARK_DRIVER_URL \\
    --executor-id $SPARK_EXECUTOR_ID --cores $SPARK_EXECUTOR_CORES --app-id $SPARK_APPLICATION_ID \\
    --hostname $SPARK_EXECUTOR_POD_IP --resourceProfileId $SPARK_RESOURCE_PROFILE_ID --podName $SPARK_EXECUTOR_POD_NAME
fi
exec java -Xmx512m {OPENED} -cp '{JARS}/*' "$@"
"""
"""What the entrypoint of Spark's image does; a process node has no image."""
QUEUE: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {"weight": 1},
}


async def submit(folder: Path, kubeconfig: str, **settings: str) -> str:
    """Run `spark-submit` until the driver has ended; returns its output."""
    (folder / "kubeconfig").write_text(kubeconfig)
    server = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]
    group: Json = {"apiVersion": GROUPS.api_version, "kind": "PodGroup"}
    group |= {"spec": {"minMember": 1, "minResources": {"cpu": "300m", "memory": "2Gi"}, "queue": "research"}}
    (folder / "group.yaml").write_text(yaml.safe_dump(group))
    configuration = {
        "kubernetes.container.image": "spark",
        "kubernetes.scheduler.name": "volcano",
        "kubernetes.driver.pod.featureSteps": STEP,
        "kubernetes.executor.pod.featureSteps": STEP,
        "kubernetes.scheduler.volcano.podGroupTemplateFile": str(folder / "group.yaml"),
        "kubernetes.driver.request.cores": "100m",
        "kubernetes.executor.request.cores": "100m",
        "kubernetes.executor.deleteOnTermination": "false",
        "executor.instances": "2",
        "executor.memory": "512m",
        "driver.memory": "512m",
    }
    options = [f"--conf=spark.{key}={value}" for key, value in (configuration | settings).items()]
    process = await asyncio.create_subprocess_exec(
        *(
            "java",
            *OPENED.split(),
            "-cp",
            f"{JARS}/*",
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            f"k8s://{server}",
        ),
        *("--deploy-mode", "cluster", "--name", "sum", "--class", "Sum", *options, f"local://{JARS}/sum.jar"),
        env=os.environ | {"KUBECONFIG": str(folder / "kubeconfig")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def pods_in_group(client: Client) -> tuple[Json, dict[str, Json]]:
    """The PodGroup of the application, and its pods by role."""
    [group] = (await client.list(GROUPS, "default")).items
    pods = (await client.list(PODS, "default", label_selector="spark-role")).items
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {
        group["metadata"]["name"]
    }
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    return group, {pod["metadata"]["labels"].get("spark-exec-id", "driver"): pod for pod in pods}


@pytest.mark.slow("Spark starts a driver and two executors")
@pytest.mark.timeout(SECONDS + 60)
async def test_spark_computes_with_a_driver_and_executors_of_one_pod_group(tmp_path: Path) -> None:
    template = {"containers": [{"name": "main", "workingDir": "/tmp", "command": ["sh", "-c", ENTRYPOINT, "spark"]}]}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": template}))
    settings = ProcessSettings(tmp_path / "run", tmp_path / "claims", runtime_named("bubblewrap"))
    parts = Parts(api="both", process=settings)
    async with LocalCluster(0, objects=[*machine.manifests(2, 4, 8 << 30), QUEUE], parts=parts) as cluster:
        pod = {f"kubernetes.{role}.podTemplateFile": str(tmp_path / "pod.yaml") for role in ("driver", "executor")}
        await submit(tmp_path, cluster.kubeconfig(), **pod, **{"kubernetes.driver.master": cluster.url})
        group, pods = await pods_in_group(cluster.client)
        assert pods.keys() == {"driver", "1", "2"}
        assert group["spec"]["queue"] == "research"
        name = pods["driver"]["metadata"]["name"]
        log = await cluster.client.get_raw(f"/api/v1/namespaces/default/pods/{name}/log")
        assert "\nsum 5050\n" in log.decode()


@asynccontextmanager
async def real_server() -> AsyncIterator[tuple[ControlPlane, Client]]:
    """A real API server with Volcano's kinds, simulated nodes and all services."""
    need_programs()
    plane = await asyncio.to_thread(lambda: ControlPlane.start(crds=crds_of(BINDINGS)))
    try:
        connection = Connection.load(plane.kubeconfig)
        async with Client(connection) as client:
            await Creator(client).create([*nodes.manifests(2), QUEUE])
        async with Components(connection, Parts(api="both")) as components:
            yield plane, components.client
    finally:
        await asyncio.to_thread(plane.stop)


@pytest.mark.real
@pytest.mark.slow("starts a real API server and Spark")
@pytest.mark.timeout(SECONDS + 60)
async def test_spark_submits_its_driver_to_the_real_server(tmp_path: Path) -> None:
    async with real_server() as (plane, client):
        duration = {"kubernetes.driver.annotation.sim.volcanopy.io/duration": "1s"}
        output = await submit(tmp_path, plane.kubeconfig.read_text(), **duration)
        group, pods = await pods_in_group(client)
        assert {role: pod["status"]["phase"] for role, pod in pods.items()} == {"driver": "Succeeded"}
        assert group["metadata"]["ownerReferences"][0]["uid"] == pods["driver"]["metadata"]["uid"]
        assert "phase: Succeeded" in output
