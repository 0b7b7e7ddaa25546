"""Spark's own `spark-submit` with its feature step for Volcano, against volcanopy: `make spark-client` builds its jars.

The driver and the executors are programs of this machine, so that Spark computes.
"""

import asyncio
import base64
import os
import shutil
from pathlib import Path

import pytest
import yaml

from tests.clients.servers import SECONDS, StartServer, on_both_servers
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import VOLCANO
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy_local.cluster import Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings

JARS = os.environ.get("SPARK_JARS", "")
pytestmark = pytest.mark.skipif(
    not (JARS and shutil.which("java")), reason="needs Java, and SPARK_JARS: `make spark-client` builds them"
)
STEP = "org.apache.spark.deploy.k8s.features.VolcanoFeatureStep"
GROUPS = bound(POD_GROUPS, VOLCANO)
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


async def submit(folder: Path, kubeconfig: str, settings: dict[str, str]) -> str:
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


@pytest.mark.slow("Spark starts a driver and two executors, with `real` an API server too")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
async def test_spark_computes_with_a_driver_and_executors_of_one_pod_group(start: StartServer, tmp_path: Path) -> None:
    """The driver creates the executors with a service account, in the PodGroup of the user that submitted it."""
    template = {"containers": [{"name": "main", "workingDir": "/tmp", "command": ["sh", "-c", ENTRYPOINT, "spark"]}]}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": template}))
    process = ProcessSettings(tmp_path / "run", tmp_path / "claims", runtime_named("bubblewrap"))
    parts = Parts(api="both", process=process)
    async with start([*machine.manifests(2, 4, 8 << 30), QUEUE], parts) as server:
        settings = {f"kubernetes.{role}.podTemplateFile": str(tmp_path / "pod.yaml") for role in ("driver", "executor")}
        cluster = yaml.safe_load(server.kubeconfig)["clusters"][0]["cluster"]
        settings["kubernetes.driver.master"] = cluster["server"]
        driver = "kubernetes.authenticate.driver"
        settings[f"{driver}.oauthToken"] = await server.token_of_account("default", "spark")
        if authority := cluster.get("certificate-authority-data"):
            (tmp_path / "ca.crt").write_bytes(base64.b64decode(authority))
            settings[f"{driver}.caCertFile"] = str(tmp_path / "ca.crt")
        output = await submit(tmp_path, server.kubeconfig, settings)
        assert "phase: Succeeded" in output
        group, pods = await pods_in_group(server.client)
        assert pods.keys() == {"driver", "1", "2"}
        assert group["spec"]["queue"] == "research"
        assert group["metadata"]["ownerReferences"][0]["uid"] == pods["driver"]["metadata"]["uid"]
        assert server.process_kubelet is not None
        log = server.process_kubelet.log(pods["driver"], pods["driver"]["spec"]["containers"][0]["name"], {})
        assert isinstance(log, bytes)
        assert "\nsum 5050\n" in log.decode()
