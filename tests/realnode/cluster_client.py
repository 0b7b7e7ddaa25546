"""Submission and observation of jobs on the cluster, by kubectl, and manifests of small jobs."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from hack.realnode import product
from hack.realnode.cluster import Cluster
from hack.realnode.images import JOBS_IMAGE
from hack.realnode.shell import CommandError

Json = dict[str, Any]
JOBS = "batchjobs.batch.volcanopy.io"
SCHEDULERS = "app.kubernetes.io/component=scheduler"
"""The labels of the schedulers."""
ENDED = ("Completed", "Failed", "Terminated", "Aborted")
SECONDS = 90.0
STEP = 0.3


class ClusterClient:
    """kubectl in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace. Raises CommandError."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *arguments)

    def items(self, *arguments: str) -> list[Json]:
        """Return the objects of a list."""
        content: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
        items: list[Json] = content["items"]
        return items

    def submit(self, *manifests: Json) -> None:
        """Create objects."""
        command = [
            "kubectl",
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--namespace={self.namespace}",
            "create",
            "-f",
            "-",
        ]
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        done = subprocess.run(command, input=document, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def patch(self, job: str, **spec: Any) -> None:
        """Change the specification of a job."""
        self.kubectl("patch", JOBS, job, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def status(self, job: str) -> Json:
        """Return the status of a job."""
        manifest: Json = json.loads(self.kubectl("get", JOBS, job, "--output=json"))
        return manifest.get("status") or {}

    def phase(self, job: str) -> str:
        """Return the phase of a job."""
        return str((self.status(job).get("state") or {}).get("phase", ""))

    def message(self, job: str) -> str:
        """Return the message of a job."""
        return str((self.status(job).get("state") or {}).get("message", ""))

    def pods(self, job: str) -> list[Json]:
        """Return the pods of a job."""
        return self.items("pods", f"--selector=volcanopy.io/job-name={job}")

    def running(self, job: str) -> dict[str, tuple[str, str]]:
        """Return node and uid of each pod of a job that runs and is not being deleted, by name."""
        return {
            pod["metadata"]["name"]: (pod["spec"]["nodeName"], pod["metadata"]["uid"])
            for pod in self.pods(job)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def events(self, name: str) -> list[str]:
        """Return reason and message of the events of an object."""
        items = self.items("events", f"--field-selector=involvedObject.name={name}")
        return [f"{item['reason']}: {item['message']}" for item in items]

    def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> float:
        """Wait for a condition and return how long it took."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > seconds:
                raise AssertionError(f"not within {seconds:.0f} s\n{self.description()}")
            time.sleep(STEP)
        return time.monotonic() - started

    def ends(self, job: str, phase: str, seconds: float = SECONDS) -> None:
        """Wait for the end of a job, which must be in this phase."""
        self.until(lambda: self.phase(job) in ENDED, seconds)
        assert self.phase(job) == phase, self.description()

    def description(self) -> str:
        """Return jobs, pods and events of the namespace."""
        commands = (
            ("get", JOBS, "--output=jsonpath={range .items[*]}{.metadata.name}: {.status.state}{'\\n'}{end}"),
            ("get", "pods", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
        )
        texts = []
        for command in commands:
            try:
                texts.append(self.kubectl(*command)[-4000:])
            except CommandError as error:
                texts.append(str(error))
        return "\n".join(texts)


def scheduler_metrics(cluster: Cluster, metric: str) -> set[float]:
    """Return the values of a metric, with its labels, of all schedulers."""
    values: set[float] = set()
    for pod in cluster.get(f"--namespace={product.NAMESPACE}", "pods", f"--selector={SCHEDULERS}")["items"]:
        path = f"/api/v1/namespaces/{product.NAMESPACE}/pods/{pod['metadata']['name']}:8081/proxy/metrics"
        lines = cluster.kubectl("get", f"--raw={path}").splitlines()
        values |= {float(line.removeprefix(metric)) for line in lines if line.startswith(f"{metric} ")}
    return values


def container(*command: str, image: str = "busybox", cpu: str = "20m", **fields: Any) -> Json:
    """A container that runs a command."""
    resources = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    return {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": resources,
        **fields,
    }


def shell(script: str, image: str = "busybox", **fields: Any) -> Json:
    """A container that runs a shell script."""
    return container("sh", "-c", script, image=image, **fields)


def python(program: str, **fields: Any) -> Json:
    """A container that runs a Python program."""
    return container("python3", "-uc", program, image=JOBS_IMAGE, **fields)


def task(name: str, replicas: int, main: Json, *, pod: Json | None = None, **fields: Any) -> Json:
    """A task of a job; ``pod`` are more fields of its pods."""
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [main], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def job(name: str, *tasks: Json, **spec: Any) -> Json:
    """A BatchJob."""
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": name},
        "spec": {"tasks": list(tasks), **spec},
    }


SERVE = "trap 'exit 0' TERM; while true; do sleep 0.2; done"
"""A script that runs until it is told to end."""
SSHD = "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e"
RESTART = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]
