"""Operators that ask for gangs, as programs: where each is in its source tree, its settings for Volcano, and one workload.

A workload is of three pods. Each row says when its operator reports that the workload runs, or has succeeded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from volcanopy.kube.client.kinds import Json

QUEUE = "research"
NAME = "train"
GANG = 3
MOUNT = "/tmp/k8s-webhook-server/serving-certs"
"""Where operators look for the certificates of their webhooks unless told otherwise."""


@dataclass(frozen=True)
class Site:
    """Where an operator runs: the folder with its configuration and certificates, and the ports of its webhooks, on loopback."""

    folder: Path
    port: int
    namespace: str

    def component_config(self, group: str, **more: object) -> str:
        """The path of a configuration of the form that operators of Kubernetes SIGs share."""
        webhook = {"host": "127.0.0.1", "port": self.port, "certDir": str(self.folder)}
        settings = {
            "apiVersion": f"{group}/v1alpha1",
            "kind": "Configuration",
            "webhook": webhook,
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            "leaderElection": {"leaderElect": True, "resourceNamespace": self.namespace},
            "internalCertManagement": {"enable": False},
        }
        path = self.folder / "configuration.yaml"
        path.write_text(yaml.safe_dump(settings | more))
        return str(path)


@dataclass(frozen=True)
class Operator:
    """An operator. Paths are relative to the folder of all source trees.

    ``webhooks`` is a folder with ``manifests.yaml`` and patches of it; empty if its webhooks are left off.
    ``secret`` is the Secret into which the operator writes certificates that it makes itself; it reads them where
    the Secret is mounted (`MOUNT`). ``ready`` are expressions for what it logs, in any order, when it serves.
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
    webhooks: str = ""
    secret: str = ""


def template(cpu: str, run: str = "1s", container: str = "main") -> Json:
    """A pod template for simulated nodes: its container runs for this time."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}}
    containers = [{"name": container, "image": "example", "resources": resources}]
    return {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": run}},
        "spec": {"schedulerName": "volcano", "containers": containers},
    }


def condition(name: str) -> Callable[[Json], bool]:
    """Whether a condition of the status is true."""

    def holds(workload: Json) -> bool:
        conditions = workload.get("status", {}).get("conditions") or ()
        return any(each["type"] == name and each["status"] == "True" for each in conditions)

    return holds


def job_set(cpu: str) -> Json:
    """A JobSet of a driver and two workers, which is one gang by its annotation."""
    pods = template(cpu)
    pods["spec"]["restartPolicy"] = "Never"
    jobs = [
        {"name": "driver", "template": {"spec": {"template": pods}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"template": pods}}},
    ]
    notes = {"scheduling.volcano.sh/group-min-member": "all", "scheduling.volcano.sh/queue-name": QUEUE}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": NAME, "annotations": notes},
        "spec": {"replicatedJobs": jobs},
    }


def leader_worker_set(cpu: str) -> Json:
    """A LeaderWorkerSet of one leader with two workers."""
    pods = template(cpu, run="forever")
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME, "annotations": {"scheduling.volcano.sh/queue-name": QUEUE}},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": GANG, "leaderTemplate": pods, "workerTemplate": pods}},
    }


def mpi_job(cpu: str) -> Json:
    """An MPIJob of a launcher and two workers."""
    replicas = {
        "Launcher": {"replicas": 1, "template": template(cpu)},
        "Worker": {"replicas": 2, "template": template(cpu, run="forever")},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": NAME},
        "spec": {"runPolicy": {"schedulingPolicy": {"queue": QUEUE}}, "mpiReplicaSpecs": replicas},
    }


def pytorch_job(cpu: str) -> Json:
    """A PyTorchJob of a master and two workers."""
    replicas = {"restartPolicy": "Never", "template": template(cpu, container="pytorch")}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": NAME},
        "spec": {
            "runPolicy": {"schedulingPolicy": {"queue": QUEUE}},
            "pytorchReplicaSpecs": {"Master": replicas | {"replicas": 1}, "Worker": replicas | {"replicas": 2}},
        },
    }


def ray_cluster(cpu: str) -> Json:
    """A RayCluster of a head and two workers."""
    pods = template(cpu, run="forever")
    workers = {"groupName": "small", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": NAME, "labels": {"volcano.sh/queue-name": QUEUE}},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": pods},
            "workerGroupSpecs": [workers | {"template": pods}],
        },
    }


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
        name="KubeRay",
        program="kuberay/ray-operator/bin/manager",
        definitions=("kuberay/ray-operator/config/crd/bases/*.yaml",),
        namespace="ray-system",
        arguments=lambda site: [
            "--batch-scheduler=volcano",
            "--metrics-addr=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
            f"--leader-election-namespace={site.namespace}",
        ],
        ready=('RayCluster","msg":"Starting workers',),
        workload=ray_cluster,
        finished=lambda cluster: cluster.get("status", {}).get("state") == "ready",
    ),
)
