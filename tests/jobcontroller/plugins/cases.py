"""The jobs whose pods are kept as files, one or two for each plugin; and what becomes of a job's plugins."""

from collections.abc import Sequence
from typing import Any

from tests.jobcontroller.world import Json, job, task
from volcanopy.api.batch import BatchJob, BatchJobStatus
from volcanopy.jobcontroller.plugins.plugin import JobPlugin
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry, plugins_of
from volcanopy.jobcontroller.pods import maker


def named(name: str, replicas: int, container: str = "main", **spec: Any) -> Json:
    """A task of this name with one container; the other fields are those of its pods' spec."""
    made = task(name, replicas)
    made["template"]["spec"]["containers"][0]["name"] = container
    made["template"]["spec"] |= spec
    return made


PREPARING: dict[str, Any] = {"initContainers": [{"name": "prepare", "image": "busybox"}]}

CASES: dict[str, Json] = {
    "env": job(named("a", 2, **PREPARING), plugins={"env": []}),
    "svc": job(named("ps", 1, **PREPARING), named("gpu-worker", 2), plugins={"svc": []}),
    "svc-arguments": job(
        named("a", 2, hostname="fixed", subdomain="elsewhere"),
        named("b", 1),
        plugins={"svc": ["--publish-not-ready-addresses", "--disable-network-policy", "--inject-hosts-env=false"]},
    ),
    "ssh": job(named("a", 2, **PREPARING), named("a-b", 1), plugins={"ssh": []}),
    "ssh-arguments": job(
        named("a", 2, hostname="fixed", subdomain="elsewhere"),
        plugins={"ssh": ["--ssh-key-file-path=/home/me/.ssh", "--ssh-port", "2022"]},
    ),
    "tensorflow": job(
        named("ps", 1), named("gpu-worker", 2), named("board", 1), plugins={"tensorflow": ["--worker=gpu-worker"]}
    ),
    "pytorch": job(named("master", 1), named("worker", 2), plugins={"pytorch": []}),
    "pytorch-arguments": job(
        named("first", 2),
        named("more", 2),
        named("watcher", 1),
        plugins={
            "pytorch": [
                "--master=first",
                "--worker=more",
                "--port=2345",
                "--wait-master-enabled",
                "--wait-master-timeout=60",
                "--wait-master-image=busybox:1.37",
            ]
        },
    ),
    "mpi": job(named("master", 1), named("worker", 2), plugins={"mpi": []}),
    "mpi-arguments": job(
        named("launcher", 1, **PREPARING),
        named("node", 2),
        plugins={
            "mpi": ["--master=launcher", "--worker=node", "--port=2022", "--slots=4"],
            "ssh": ["--ssh-port=2022"],
        },
    ),
    "ray": job(named("head", 1, "head"), named("worker", 2, "worker"), plugins={"ray": []}),
    "ray-arguments": job(
        named("boss", 1, "ray"),
        named("hand", 1, "ray"),
        named("submit", 1),
        plugins={
            "ray": [
                "--head=boss",
                "--headContainer=ray",
                "--worker=hand",
                "--workerContainer=ray",
                "--port=6380",
                "--dashboardPort=8266",
                "--clientPort=10002",
            ]
        },
    ),
    "jax": job(named("worker", 2), plugins={"jax": []}),
    "paddle": job(named("worker", 2), plugins={"paddle": []}),
    "hcclrank": job(named("master", 1), named("worker", 2), plugins={"hcclrank": []}),
    "hcclrank-after-pytorch": job(named("master", 1), named("worker", 2), plugins={"hcclrank": [], "pytorch": []}),
}


def active_plugins(manifest: Json, registry: Registry = JOB_PLUGINS) -> Sequence[JobPlugin[Any]]:
    """The plugins of a job."""
    return plugins_of(BatchJob.read(manifest), registry)


def pods(manifest: Json, registry: Registry = JOB_PLUGINS) -> dict[str, Json]:
    """All pods of a job, by name."""
    read = BatchJob.read(manifest)
    plugins = plugins_of(read, registry)
    makers = [(task, maker(read, BatchJobStatus(), task, plugins)) for task in read.spec.tasks]
    made = [make(index) for task, make in makers for index in range(task.replicas)]
    return {entry["metadata"]["name"]: entry for entry in made}


def objects(manifest: Json, registry: Registry = JOB_PLUGINS) -> dict[str, Json]:
    """All objects of a job's plugins, by ``Kind/name``."""
    made = [needed.manifest for plugin in active_plugins(manifest, registry) for needed in plugin.objects()]
    return {f"{entry['kind']}/{entry['metadata']['name']}": entry for entry in made}


def environment(manifest: Json, container: str = "main") -> dict[str, str]:
    """What a container is given as text."""
    item = next(element for element in manifest["spec"]["containers"] if element["name"] == container)
    return {entry["name"]: entry["value"] for entry in item.get("env") or () if "value" in entry}
