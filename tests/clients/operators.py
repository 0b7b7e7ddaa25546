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
REPLICA_SET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
NAMESPACE = "team"
REQUESTS = {"cpu": "1", "memory": "1Gi"}
TOGETHER = {"cpu": "3", "memory": "3Gi"}
"""The requests of three pods."""


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
    group = pod_group("mnist", job, minMember=3, minResources=TOGETHER, queue="research")
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


def trainer() -> Client:
    """Kubeflow Trainer v2 with podGroupPolicy.volcano: the TrainJob controls the PodGroup, a JobSet's Jobs the pods."""
    user = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"
    job = owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "bert")
    group = pod_group("bert", job, minMember=3, minResources=TOGETHER, queue="research")
    of_job = owner("batch/v1", "Job", "bert-node-0")
    label = {"jobset.sigs.k8s.io/jobset-name": "bert", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    pods = [pod(f"bert-node-0-{number}", "bert", of_job, label) for number in range(3)]
    return Client("Kubeflow Trainer", "volcano.go", (*created(user, group), *created(JOB_CONTROLLER, *pods)), gang=3)


def flink_operator() -> Client:
    """Flink operator with batchSchedulerName: volcano: the FlinkCluster controls the PodGroup, StatefulSets the pods."""
    user, name = "system:serviceaccount:flink-operator-system:default", "flink-wordcount"
    cluster = owner("flinkoperator.k8s.io/v1beta1", "FlinkCluster", "wordcount")
    amounts = {part + key: amount for part in ("", "requests.", "limits.") for key, amount in TOGETHER.items()}
    group = pod_group(name, cluster, minMember=3, minResources=amounts)
    job_manager = pod("wordcount-jobmanager-0", name, owner("apps/v1", "StatefulSet", "wordcount-jobmanager"))
    of_tasks = owner("apps/v1", "StatefulSet", "wordcount-taskmanager")
    task_managers = [pod(f"wordcount-taskmanager-{number}", name, of_tasks) for number in range(2)]
    pods = created(STATEFUL_SET_CONTROLLER, job_manager, *task_managers)
    return Client("Flink operator", "batchscheduler/volcano", (*created(user, group), *pods), gang=3)


def flink_native() -> Client:
    """Flink on Kubernetes: pod templates name a PodGroup that the user has created.

    The JobManager is a Deployment; when it runs, it creates the TaskManagers with its own service account.
    """
    name = "session"
    group = pod_group(name, minMember=1, minResources={"cpu": "2", "memory": "2Gi"}, queue="research")
    of_deployment = owner("apps/v1", "ReplicaSet", "session-7d4b9c")
    labels = {"app": "session", "type": "flink-native-kubernetes"}
    job_manager = pod("session-7d4b9c-x2x4z", name, of_deployment, labels | {"component": "jobmanager"})
    deployment = owner("apps/v1", "Deployment", "session")
    task_manager = pod("session-taskmanager-1-1", name, deployment, labels | {"component": "taskmanager"})
    objects = (
        *created("ana", group),
        *created(REPLICA_SET_CONTROLLER, job_manager),
        *created("system:serviceaccount:team:flink", task_manager),
    )
    return Client("Flink native", "KubernetesTaskManagerFactory", objects, gang=1)


def dask() -> Client:
    """Dask operator: annotations of the DaskCluster are those of its pods, which belong to Deployments; the PodGroup is the user's."""
    name = "dask-gang"
    group = pod_group(name, minMember=3, queue="research")
    label = {"dask.org/cluster-name": "simple"}
    roles = {"simple-scheduler": "scheduler", "simple-default-worker-6c02e6b751": "worker"}
    roles |= {"simple-default-worker-7112efc523": "worker"}
    pods = [
        pod(f"{member}-x2x4z", name, owner("apps/v1", "ReplicaSet", member), label | {"dask.org/component": role})
        for member, role in roles.items()
    ]
    objects = (*created("ana", group), *created(REPLICA_SET_CONTROLLER, *pods))
    return Client("Dask", "build_worker_deployment_spec", objects, gang=3)


def airflow() -> Client:
    """Airflow's KubernetesPodOperator: the scheduler's service account creates a pod without a controller."""
    user, name = "system:serviceaccount:team:airflow-scheduler", "nightly"
    label = {"dag_id": "nightly", "task_id": "train", "kubernetes_pod_operator": "True"}
    pods = [pod(f"train-{suffix}", name, labels=label) for suffix in ("a1b2", "c3d4")]
    group = pod_group(name, minMember=2, queue="research")
    return Client("Airflow", "KubernetesPodOperator", (*created("ana", group), *created(user, *pods)), gang=2)


def argo_job() -> Json:
    """The Job of a `resource` template of Argo Workflows, created by the service account of the workflow."""
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "steps-x", "uid": "uid-workflow"}
    container = {"name": "hello", "image": "busybox", "command": ["echo"], "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"name": "hello"}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "step-job-hello1-x7k2p",
            "generateName": "step-job-hello1-",
            "namespace": NAMESPACE,
            "ownerReferences": [workflow | {"blockOwnerDeletion": True}],
        },
        "spec": {
            "minAvailable": 1,
            "schedulerName": "volcano",
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "plugins": {"ssh": [], "env": [], "svc": []},
            "maxRetry": 1,
            "queue": "default",
            "tasks": [{"replicas": 2, "name": "default-hello", "template": template}],
        },
    }


CLIENTS = (
    spark(),
    spark_with_template(),
    spark_operator(),
    kuberay(),
    training_operator(),
    mpi_operator(),
    leader_worker_set(),
    trainer(),
    flink_operator(),
    flink_native(),
    dask(),
    airflow(),
)
