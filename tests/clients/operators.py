"""The PodGroups and pods that operators create for Volcano, in the order of creation, as their sources write them.

Only what a scheduler and admission read is listed. Each client creates its objects with a service account of its own;
pods of workloads are created by Kubernetes' controllers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
STATEFUL_SET_CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
NAMESPACE = "team"
REQUESTS = {"cpu": "1", "memory": "1Gi"}


@dataclass(frozen=True)
class Creation:
    """An object, and the user that creates it."""

    user: str
    manifest: Json


@dataclass(frozen=True)
class Client:
    """The objects of one workload of a client. ``gang`` is the number of pods that start together."""

    name: str
    source: str
    objects: tuple[Creation, ...]
    gang: int

    @property
    def pods(self) -> list[Json]:
        """The pods."""
        return [creation.manifest for creation in self.objects if creation.manifest["kind"] == "Pod"]

    @property
    def groups(self) -> list[Json]:
        """The PodGroups."""
        return [creation.manifest for creation in self.objects if creation.manifest["kind"] == "PodGroup"]


def owner(api_version: str, kind: str, name: str) -> list[Json]:
    """The reference of a controller."""
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}".lower()}
    return [reference | {"controller": True, "blockOwnerDeletion": True}]


def pod_group(name: str, owners: Iterable[Json] = (), status: Json | None = None, **spec: Any) -> Json:
    """A PodGroup of Volcano's API."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": list(owners)},
        "spec": spec,
        **({"status": status} if status else {}),
    }


def pod(
    name: str,
    group: str,
    owners: Iterable[Json] = (),
    labels: Json | None = None,
    annotations: Json | None = None,
) -> Json:
    """A pod in a PodGroup."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "labels": labels or {},
            "annotations": {"scheduling.k8s.io/group-name": group, **(annotations or {})},
            "ownerReferences": list(owners),
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "main", "resources": {"requests": REQUESTS}}],
        },
    }


def created(user: str, *manifests: Json) -> tuple[Creation, ...]:
    """Objects of one user."""
    return tuple(Creation(user, manifest) for manifest in manifests)


def spark() -> Client:
    """Spark on Kubernetes: the driver's client writes an empty PodGroup before it, and one annotation on all pods."""
    user, name = "system:serviceaccount:team:spark", "spark-0123-podgroup"
    driver = pod("spark-pi-driver", name)
    executor = pod("spark-pi-exec-1", name, owner("v1", "Pod", "spark-pi-driver"))
    return Client("Spark", "VolcanoFeatureStep", created(user, pod_group(name), driver, executor), gang=1)


def spark_with_template() -> Client:
    """The same with spark.kubernetes.scheduler.volcano.podGroupTemplateFile."""
    user, name = "system:serviceaccount:team:spark", "spark-4567-podgroup"
    minimum = {"cpu": "2", "memory": "2Gi"}
    group = pod_group(name, minMember=1, minResources=minimum, priorityClassName="high", queue="research")
    driver = pod("spark-etl-driver", name)
    executor = pod("spark-etl-exec-1", name, owner("v1", "Pod", "spark-etl-driver"))
    return Client("Spark with a template", "VolcanoFeatureStep", created(user, group, driver, executor), gang=1)


def spark_operator() -> Client:
    """Spark operator with batchScheduler: volcano."""
    user, name = "system:serviceaccount:spark-operator:spark-operator", "spark-pi-pg"
    application = owner("sparkoperator.k8s.io/v1beta2", "SparkApplication", "pi")
    group = pod_group(name, application, minMember=1, minResources={"cpu": "2", "memory": "2Gi"}, queue="research")
    driver, executor = pod("pi-driver", name), pod("pi-exec-1", name, owner("v1", "Pod", "pi-driver"))
    account = "system:serviceaccount:team:spark"  # spark-submit and the driver create the pods
    return Client(
        "Spark operator", "batchscheduler", (*created(user, group), *created(account, driver, executor)), gang=1
    )


def kuberay() -> Client:
    """KubeRay with batchScheduler: volcano: the RayCluster controls the PodGroup and the pods."""
    user, name = "system:serviceaccount:ray:kuberay-operator", "ray-demo-pg"
    cluster = owner("ray.io/v1", "RayCluster", "demo")
    group = pod_group(
        name,
        cluster,
        {"phase": "Pending"},
        minMember=3,
        minResources={"cpu": "3", "memory": "3Gi"},
        queue="research",
    )
    label = {"volcano.sh/queue-name": "research"}
    roles = {"demo-head": "headgroup", "demo-worker-a": "small", "demo-worker-b": "small"}
    pods = [pod(member, name, cluster, label, {"volcano.sh/task-spec": role}) for member, role in roles.items()]
    return Client("KubeRay", "batchscheduler/volcano", created(user, group, *pods), gang=3)


def training_operator() -> Client:
    """Kubeflow training-operator v1 with --gang-scheduler-name=volcano: the job controls the PodGroup and the pods."""
    user = "system:serviceaccount:kubeflow:training-operator"
    job = owner("kubeflow.org/v1", "PyTorchJob", "mnist")
    group = pod_group("mnist", job, minMember=3, minResources={"cpu": "3", "memory": "3Gi"}, queue="research")
    roles = {"mnist-master-0": "master", "mnist-worker-0": "worker", "mnist-worker-1": "worker"}
    pods = [pod(name, "mnist", job, None, {"volcano.sh/task-spec": role}) for name, role in roles.items()]
    return Client("Kubeflow training-operator", "schedulingPolicy", created(user, group, *pods), gang=3)


def mpi_operator() -> Client:
    """MPI operator: workers belong to the MPIJob, the launcher to a Job of it."""
    user = "system:serviceaccount:mpi-operator:mpi-operator"
    job = owner("kubeflow.org/v2beta1", "MPIJob", "pi")
    group = pod_group(
        "pi", job, minMember=3, minResources={"cpu": "3", "memory": "3Gi"}, queue="", priorityClassName=""
    )
    workers = [pod(f"pi-worker-{number}", "pi", job) for number in range(2)]
    launcher = pod("pi-launcher-x", "pi", owner("batch/v1", "Job", "pi-launcher"))
    return Client(
        "MPI operator", "podgroup.go", (*created(user, group, *workers), *created(JOB_CONTROLLER, launcher)), gang=3
    )


def leader_worker_set() -> Client:
    """LeaderWorkerSet: the leader exists before the PodGroup that it controls."""
    user, name = "system:serviceaccount:lws-system:lws-controller-manager", "vllm-0-5b4f"
    leader = pod("vllm-0", name, owner("apps/v1", "StatefulSet", "vllm"))
    group = pod_group(name, owner("v1", "Pod", "vllm-0"), minMember=2, minResources={"cpu": "2", "memory": "2Gi"})
    worker = pod("vllm-0-1", name, owner("apps/v1", "StatefulSet", "vllm-0"))
    objects = (
        *created(STATEFUL_SET_CONTROLLER, leader),
        *created(user, group),
        *created(STATEFUL_SET_CONTROLLER, worker),
    )
    return Client("LeaderWorkerSet", "volcano_provider.go", objects, gang=2)


CLIENTS = (
    spark(),
    spark_with_template(),
    spark_operator(),
    kuberay(),
    training_operator(),
    mpi_operator(),
    leader_worker_set(),
)
