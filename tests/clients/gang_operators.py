"""Operators that ask for gangs, as programs: where each is in its source tree, and its settings for Volcano.

Each row says when its operator reports that its workload runs, or has succeeded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from tests.clients.workloads import (
    NAME,
    flink_cluster,
    flink_deployment,
    flink_gang,
    flink_job,
    job_set,
    leader_worker_set,
    mpi_job,
    pytorch_job,
    ray_cluster,
    ray_job,
    train_job,
    training_runtime,
)
from volcanopy.kube.client.kinds import Json

MOUNT = "/tmp/k8s-webhook-server/serving-certs"
"""Where operators look for the certificates of their webhooks unless told otherwise."""
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
"""Where pods have the credentials of their service account."""


@dataclass(frozen=True)
class Site:
    """Where an operator runs: the folder with its configuration and certificates, and the port of its webhooks, on loopback."""

    folder: Path
    port: int
    namespace: str

    @property
    def certificates(self) -> Path:
        """The folder with the certificates of the webhooks."""
        return self.folder / "certificates"

    @property
    def account(self) -> Path:
        """The folder with the credentials of a pod."""
        return self.folder / "account"

    def configuration(self, group: str, **settings: object) -> str:
        """The path of a configuration of a component: its webhooks on this port, and nothing else served."""
        served = {"host": "127.0.0.1", "port": self.port}
        shared = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": "Configuration",
            "webhook": served,
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            "leaderElection": {
                "leaderElect": True,
                "resourceName": group,
                "resourceNamespace": self.namespace,
                "leaseDuration": "15s",
                "renewDeadline": "10s",
                "retryPeriod": "2s",
            },
        }
        path = self.folder / "configuration.yaml"
        path.write_text(yaml.safe_dump(shared | settings))
        return str(path)

    def component_config(self, group: str, **settings: object) -> str:
        """The path of a configuration of the form that operators of Kubernetes SIGs share."""
        webhook = {"host": "127.0.0.1", "port": self.port, "certDir": str(self.certificates)}
        return self.configuration(group, webhook=webhook, internalCertManagement={"enable": False}, **settings)


@dataclass(frozen=True)
class Operator:
    """An operator. Paths are relative to the folder of all source trees.

    ``webhooks`` is a folder with ``manifests.yaml`` and patches of it; empty if its webhooks are left off.
    ``ready`` are expressions for what it logs, in any order, when it serves.
    """

    name: str
    program: str
    definitions: tuple[str, ...]
    namespace: str
    arguments: Callable[[Site], list[str]]
    ready: tuple[str, ...]
    workload: Callable[[str], Json]
    """Makes the workload of pods that request so many cpus each."""
    finished: Callable[[Json], bool]
    """Whether the status of the workload says that it runs, or has succeeded."""
    java: str = ""
    """The class that runs the operator, if it is one in Java; ``program`` is the folder with its jars."""
    webhooks: str = ""
    in_pod: bool = False
    """Whether it has its credentials and certificates where pods have them (`ACCOUNT`, `MOUNT`), and no others."""
    secret: str = ""
    """The Secret, mounted at `MOUNT`, into which it writes certificates that it makes itself."""
    port: int = 0
    """The port of its webhooks, if that cannot be chosen: one such operator runs at a time."""
    environment: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, Json] = field(default_factory=dict)
    """What the Services of its workload answer by HTTP, by path: on simulated nodes they have no programs."""
    beside: tuple[str, ...] = ()
    """The names of other operators that its workload needs."""
    refers: tuple[Json, ...] = ()
    """Objects to which its workload refers."""


def condition(name: str) -> Callable[[Json], bool]:
    """Whether a condition of the status is true."""

    def holds(workload: Json) -> bool:
        conditions = workload.get("status", {}).get("conditions") or ()
        return any(each["type"] == name and each["status"] == "True" for each in conditions)

    return holds


FLINK = Operator(
    name="Flink operator",
    program="flink-operator/bin/manager",
    definitions=("flink-operator/config/crd/bases/*.yaml", "flink-operator/config/crd/patches/crd_protection.yaml"),
    webhooks="flink-operator/config/webhook",
    in_pod=True,
    port=9443,
    namespace="flink-operator-system",
    arguments=lambda _: ["--enable-leader-election", "--metrics-addr=0"],
    ready=("Serving webhook server", "Starting workers.*flinkcluster"),
    workload=flink_cluster,
    finished=lambda cluster: cluster.get("status", {}).get("state") == "Running",
)

KUBERAY = Operator(
    name="KubeRay",
    program="kuberay/ray-operator/bin/manager",
    definitions=("kuberay/ray-operator/config/crd/bases/*.yaml",),
    webhooks="kuberay/ray-operator/config/webhook",
    in_pod=True,
    port=9443,
    environment={"ENABLE_WEBHOOKS": "true"},
    namespace="ray-system",
    arguments=lambda site: [
        "--batch-scheduler=volcano",
        "--metrics-addr=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        f"--leader-election-namespace={site.namespace}",
    ],
    ready=("Serving webhook server", 'RayCluster","msg":"Starting workers', 'RayJob","msg":"Starting workers'),
    workload=ray_cluster,
    finished=lambda cluster: cluster.get("status", {}).get("state") == "ready",
)

OPERATORS = (
    Operator(
        name="JobSet",
        program="jobset/bin/manager",
        definitions=("jobset/config/components/crd/bases/*.yaml",),
        webhooks="jobset/config/components/webhook",
        namespace="jobset-system",
        arguments=lambda site: [f"--config={site.component_config('config.jobset.x-k8s.io')}"],
        ready=("Serving webhook server", 'Starting workers.*"jobset"', 'Starting workers.*"pod"'),
        workload=job_set,
        finished=condition("Completed"),
    ),
    Operator(
        name="LeaderWorkerSet",
        program="lws/bin/manager",
        definitions=("lws/config/crd/bases/*.yaml",),
        webhooks="lws/config/webhook",
        namespace="lws-system",
        arguments=lambda site: [
            "--config="
            + site.component_config("config.lws.x-k8s.io", gangSchedulingManagement={"schedulerProvider": "volcano"})
        ],
        ready=("Serving webhook server", 'Starting workers.*"leaderworkerset"', 'Starting workers.*"pod"'),
        workload=leader_worker_set,
        finished=condition("Available"),
    ),
    Operator(
        name="MPI operator",
        program="mpi-operator/_output/cmd/bin/mpi-operator.v2",
        definitions=("mpi-operator/manifests/base/kubeflow.org_mpijobs.yaml",),
        namespace="mpi-operator",
        arguments=lambda site: ["--gang-scheduling=volcano", f"--lock-namespace={site.namespace}"],
        ready=("Started workers",),
        workload=mpi_job,
        finished=condition("Succeeded"),
    ),
    Operator(
        name="training-operator",
        program="training-operator/bin/manager",
        definitions=("training-operator/manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
        webhooks="training-operator/manifests/base/webhook",
        in_pod=True,
        secret="training-operator-webhook-cert",
        namespace="kubeflow",
        arguments=lambda site: [
            "--gang-scheduler-name=volcano",
            "--enable-scheme=pytorchjob",
            f"--webhook-server-port={site.port}",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
        ],
        ready=("Serving webhook server", 'Starting workers.*"pytorchjob'),
        workload=pytorch_job,
        finished=condition("Succeeded"),
    ),
    Operator(
        name="Trainer",
        program="trainer/bin/manager",
        definitions=("trainer/manifests/base/crds/trainer*.yaml",),
        webhooks="trainer/manifests/base/webhook",
        in_pod=True,
        secret="kubeflow-trainer-webhook-cert",
        namespace="kubeflow-system",
        arguments=lambda site: [f"--config={site.configuration('config.trainer.kubeflow.org')}"],
        ready=("Serving webhook server", 'Starting workers.*"trainjob'),
        beside=("JobSet",),
        refers=(training_runtime(),),
        workload=train_job,
        finished=condition("Complete"),
    ),
    FLINK,
    replace(FLINK, name="Flink operator with a job", workload=flink_job),
    Operator(
        name="Apache's Flink operator",
        program="flink-kubernetes-operator/jars",
        java="org.apache.flink.kubernetes.operator.FlinkOperator",
        definitions=("flink-kubernetes-operator/helm/flink-kubernetes-operator/crds/*.yml",),
        environment={"OPERATOR_NAMESPACE": "flink-system", "OPERATOR_NAME": "flink-kubernetes-operator"},
        namespace="flink-system",
        arguments=lambda _: [],
        ready=("Starting Flink Kubernetes Operator", "flinkdeploymentcontroller.*started"),
        refers=(flink_gang(),),
        workload=flink_deployment,
        finished=lambda deployment: deployment.get("status", {}).get("lifecycleState") == "DEPLOYED",
    ),
    KUBERAY,
    replace(
        KUBERAY,
        name="KubeRay with a RayJob",
        services={f"/api/jobs/{NAME}": {"status": "SUCCEEDED", "submission_id": NAME}},
        workload=ray_job,
        finished=lambda job: job.get("status", {}).get("jobDeploymentStatus") == "Complete",
    ),
)
