"""The Spark operator as a program, unchanged, with its webhook and a published Spark: `make operators OPERATORS=folder SPARK_HOME=folder`.

The folder of operators has its source tree as `spark-operator`, with the program in `bin`; `SPARK_HOME` is a distribution of Spark, such
as the folder of the package `pyspark`. The driver and the executors are programs of this machine, so that Spark computes.
"""

import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from tests.clients.gang_operators import Operator
from tests.clients.servers import SECONDS, StartServer, on_both_servers, reason_to_wait
from tests.clients.test_gang_operators import TREES, documents, running
from tests.clients.workloads import QUEUE
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy_local.cluster import Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings

TREE = TREES / "spark-operator"
SPARK_HOME = Path(os.environ.get("SPARK_HOME") or "/nonexistent")
pytestmark = pytest.mark.skipif(
    not (
        (TREE / "bin/spark-operator").is_file() and (SPARK_HOME / "bin/spark-submit").is_file() and shutil.which("java")
    ),
    reason="needs Java, OPERATORS, a folder with spark-operator/bin/spark-operator, and SPARK_HOME: `make operators`",
)
RIGHTS = "config/spark-rbac/spark-application-rbac.yaml"
"""The service account of drivers, and what it may do."""
GROUPS = bound(POD_GROUPS, VOLCANO)
ENTRYPOINT = """\
role=$1; shift
if [ "$role" = driver ]; then
  exec $SPARK_HOME/bin/spark-submit --conf spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS --deploy-mode client "$@"
fi
exec $SPARK_HOME/bin/spark-class org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
  --driver-url $SPARK_DRIVER_URL --executor-id $SPARK_EXECUTOR_ID --cores $SPARK_EXECUTOR_CORES \\
  --app-id $SPARK_APPLICATION_ID --hostname $SPARK_EXECUTOR_POD_IP \\
  --resourceProfileId $SPARK_RESOURCE_PROFILE_ID --podName $SPARK_EXECUTOR_POD_NAME
"""
"""What the entrypoint of Spark's image does; a process node has no image."""
PROGRAM = """\
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
print("sum", session.sparkContext.parallelize(range(101), 4).sum())
session.stop()
"""


def role(name: str, cpu: str) -> Json:
    """The driver or the executors, as programs of a process node."""
    environment = {"SPARK_HOME": SPARK_HOME, "PYTHONPATH": SPARK_HOME.parent}
    container = {
        "name": f"spark-kubernetes-{name}",  # by which the webhook finds it
        "image": "spark",
        "workingDir": "/tmp",
        "env": [{"name": key, "value": str(value)} for key, value in environment.items()],
        "command": ["sh", "-c", ENTRYPOINT, "spark"],
    }
    return {"cores": int(cpu), "memory": "1G", "template": {"spec": {"containers": [container]}}}


def application(cpu: str) -> Json:
    """A program of a driver and two executors, which request so many cpus each; the webhook adds the volume to the driver."""
    driver = {
        "serviceAccount": "spark-operator-spark",
        "volumeMounts": [{"name": "program", "mountPath": "/opt/program"}],
    }
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "sum", "namespace": "default"},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "image": "spark",
            "sparkVersion": "4.3.0",
            "mainApplicationFile": "local:///opt/program/sum.py",
            "batchScheduler": "volcano",
            "batchSchedulerOptions": {"queue": QUEUE},
            "volumes": [{"name": "program", "configMap": {"name": "program"}}],
            "sparkConf": {"spark.kubernetes.executor.deleteOnTermination": "false"},
            "driver": role("driver", cpu) | driver,
            "executor": role("executor", cpu) | {"instances": 2},
        },
    }


WEBHOOK = Operator(
    name="Spark operator's webhook",
    program="spark-operator/bin/spark-operator",
    definitions=("spark-operator/config/crd/bases/*.yaml",),
    namespace="spark-webhook",
    webhooks="spark-operator/config/webhook",
    in_pod=True,
    secret="spark-operator-webhook-certs",
    arguments=lambda site: [
        *("webhook", "start", "--namespaces=default", f"--webhook-port={site.port}"),
        f"--webhook-cert-dir={site.certificates}",
        *(f"--{kind}-webhook-name={kind}-webhook-configuration" for kind in ("mutating", "validating")),
        *("--webhook-svc-name=webhook-service", f"--webhook-svc-namespace={site.namespace}"),
        f"--webhook-secret-namespace={site.namespace}",
        "--health-probe-bind-address=127.0.0.1:0",
    ],
    ready=("Serving webhook server", "MutatingWebhookConfiguration updated", "ValidatingWebhookConfiguration updated"),
    workload=lambda cpu: {},
    finished=bool,
)
CONTROLLER = Operator(
    name="Spark operator",
    program="spark-operator/bin/spark-operator",
    definitions=(),
    namespace="spark-operator",
    in_pod=True,
    environment={"SPARK_HOME": str(SPARK_HOME)},
    arguments=lambda site: [
        *("controller", "start", "--namespaces=default", "--enable-batch-scheduler"),
        *("--leader-election", f"--leader-election-lock-namespace={site.namespace}"),
        "--health-probe-bind-address=127.0.0.1:0",
    ],
    ready=('Starting workers.*"sparkapplication"',),
    workload=application,
    finished=lambda found: found.get("status", {}).get("applicationState", {}).get("state") in {"COMPLETED", "FAILED"},
)


QUEUE_WITH_LIMIT: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": QUEUE},
    "spec": {"weight": 1, "capability": {"cpu": "4"}},
}
OTHER_POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "other", "annotations": {"scheduling.volcano.sh/queue-name": QUEUE}},
    "spec": {
        "schedulerName": "volcano",
        "containers": [
            {
                "name": "main",
                "image": "none",
                "command": ["sleep", "infinity"],
                "resources": {"requests": {"cpu": "2"}},
            }
        ],
    },
}


@pytest.mark.slow("starts the operator, its webhook, a driver and two executors, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
async def test_an_application_of_the_spark_operator_waits_for_all_its_resources(
    start: StartServer, tmp_path: Path
) -> None:
    """While another pod runs, the queue has room for the driver, not for the executors too; after that Spark computes."""
    process = ProcessSettings(tmp_path / "run", tmp_path / "claims", runtime_named("bubblewrap"))
    program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}, "data": {"sum.py": PROGRAM}}
    objects = [*machine.manifests(1, 8, 8 << 30), QUEUE_WITH_LIMIT, program, *documents(TREE / RIGHTS)]
    async with start(objects, Parts(api="both", process=process)) as server, AsyncExitStack() as programs:
        for each in (WEBHOOK, CONTROLLER):
            await programs.enter_async_context(running(each, server, tmp_path))
        creator = Creator(server.client)
        await creator.create([OTHER_POD])
        await server.until(PODS, lambda pods: any(pod["status"].get("phase") == "Running" for pod in pods))
        manifest = application("1")
        if os.geteuid() != 0:  # else Spark's default is served, https://kubernetes.default.svc
            address = yaml.safe_load(server.kubeconfig)["clusters"][0]["cluster"]["server"]
            manifest["spec"]["driver"]["kubernetesMaster"] = address
        [submitted] = await creator.create([manifest])
        kind = await creator.kind(submitted)
        await server.until(PODS, lambda pods: any("driver" in pod["metadata"]["name"] for pod in pods))
        groups = await server.until(GROUPS, lambda groups: "cpu" in reason_to_wait(groups))
        [group] = [group for group in groups if group["metadata"]["name"] == "spark-sum-pg"]
        assert group["spec"]["queue"] == QUEUE
        assert group["spec"]["minResources"] == {"cpu": "3", "memory": "3G"}
        assert group["metadata"]["ownerReferences"][0]["kind"] == "SparkApplication"
        [driver] = (await server.client.list(PODS, "default", label_selector="spark-role")).items
        assert "nodeName" not in driver["spec"]

        await server.client.delete(PODS, "default", "other", grace=0)
        [ended] = await server.until(kind, lambda found: any(map(CONTROLLER.finished, found)))
        assert server.process_kubelet is not None
        log = server.process_kubelet.log(driver, driver["spec"]["containers"][0]["name"], {})
        assert isinstance(log, bytes)
        assert ended["status"]["applicationState"]["state"] == "COMPLETED", log.decode()
        pods = (await server.client.list(PODS, "default", label_selector="spark-role")).items
        assert sorted(pod["metadata"]["labels"]["spark-role"] for pod in pods) == ["driver", "executor", "executor"]
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {"spark-sum-pg"}
        assert b"sum 5050" in log.splitlines()
