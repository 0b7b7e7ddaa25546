"""Workloads of operators that ask for gangs, each of three pods, whose requests of cpus are an argument."""

from volcanopy.kube.client.kinds import Json

QUEUE = "research"
NAME = "train"
GANG = 3


def template(cpu: str, run: str = "1s", container: str = "main") -> Json:
    """A pod template for simulated nodes: its container runs for this time."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}}
    containers = [{"name": container, "image": "example", "resources": resources}]
    return {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": run}},
        "spec": {"schedulerName": "volcano", "containers": containers},
    }


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


def flink_cluster(cpu: str) -> Json:
    """A session cluster of a JobManager and two TaskManagers."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "apiVersion": "flinkoperator.k8s.io/v1beta1",
        "kind": "FlinkCluster",
        "metadata": {"name": NAME},
        "spec": {
            "flinkVersion": "1.14",
            "image": {"name": "flink:1.14.2"},
            "batchScheduler": {"name": "volcano", "queue": QUEUE},
            "jobManager": {"resources": resources},
            "taskManager": {"replicas": 2, "resources": resources},
        },
    }


def flink_job(cpu: str) -> Json:
    """A cluster of a JobManager and one TaskManager, with the pod that submits its job to it."""
    cluster = flink_cluster(cpu)
    spec = cluster["spec"]
    job = {
        "jarFile": "train.jar",
        "parallelism": 1,
        "restartPolicy": "Never",
        "resources": spec["jobManager"]["resources"],
    }
    workers = spec["taskManager"] | {"replicas": 1}
    return cluster | {"spec": spec | {"job": job, "taskManager": workers}}


def flink_gang() -> Json:
    """The PodGroup of a FlinkDeployment, which is its user's."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "session"},
        "spec": {"minMember": GANG, "queue": QUEUE},
    }


def flink_deployment(cpu: str) -> Json:
    """A session cluster of a JobManager and two TaskManagers, which the operator itself creates."""
    notes = {"scheduling.k8s.io/group-name": "session"}
    role = {"resource": {"cpu": float(cpu), "memory": "1Gi"}}
    return {
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": NAME},
        "spec": {
            "image": "flink:1.17",
            "flinkVersion": "v1_17",
            "mode": "standalone",
            "serviceAccount": "default",
            "podTemplate": {"metadata": {"annotations": notes}, "spec": {"schedulerName": "volcano"}},
            "jobManager": role,
            "taskManager": role | {"replicas": 2},
        },
    }


def training_runtime() -> Json:
    """The runtime of TrainJobs that are gangs of Volcano: their pods and their queue."""
    pods = template("0", container="node")
    pods["spec"]["restartPolicy"] = "Never"
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}}
    queue = {"annotations": {"scheduling.volcano.sh/queue-name": QUEUE}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "gang"},
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "podGroupPolicy": {"volcano": {}},
            "template": {"metadata": queue, "spec": {"replicatedJobs": [job]}},
        },
    }


def train_job(cpu: str) -> Json:
    """A TrainJob of three nodes."""
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": NAME},
        "spec": {
            "runtimeRef": {"kind": "TrainingRuntime", "name": "gang"},
            "trainer": {"numNodes": GANG, "resourcesPerNode": resources},
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


def ray_job(cpu: str) -> Json:
    """A RayJob with a RayCluster of its own, and the pod that submits it."""
    cluster, submitter = ray_cluster(cpu), template("500m")
    submitter["spec"]["restartPolicy"] = "Never"
    job: Json = {"entrypoint": "python train.py", "jobId": NAME, "submissionMode": "K8sJobMode"}
    job |= {"rayClusterSpec": cluster["spec"], "submitterPodTemplate": submitter}
    return cluster | {"kind": "RayJob", "spec": job}
