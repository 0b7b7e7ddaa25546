"""Answers of real kubelets, recorded as test data: `python -m tests.realnode.recording` on a running cluster.

Nodes, a CSINode and pods in many states are written to `tests/kubelet_answers`, as the API server returns them, without
`managedFields`. The decoders are tested with them, and simulated and process nodes are compared with them.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hack.realnode import images
from hack.realnode.cluster import Cluster, is_ready
from hack.realnode.shell import run
from tests.realnode.cluster_client import SERVE, ClusterClient, container, shell

FOLDER = Path(__file__).parents[1] / "kubelet_answers"
NAMESPACE = "answers"
ABSENT = "localhost:1/absent:1"
UNTAGGED = "localhost/realnode/untagged:1"
SECONDS = 120.0
OF_THE_MACHINE = dict.fromkeys(("machineID", "systemUUID", "bootID"), "0" * 32) | {"kernelVersion": "6.12.0"}
"""What is replaced in the information about a node."""
Json = dict[str, Any]


def waits_for(reason: str, key: str = "containerStatuses") -> Callable[[Json], bool]:
    """Return whether a container of a pod waits for this reason."""

    def waits(pod: Json) -> bool:
        statuses = pod["status"].get(key) or ()
        return any(status["state"].get("waiting", {}).get("reason") == reason for status in statuses)

    return waits


def runs(pod: Json) -> bool:
    """Return whether a pod is running."""
    return bool(pod["status"]["phase"] == "Running")


def has_ended(phase: str) -> Callable[[Json], bool]:
    """Return whether a pod is in a final phase and its sandbox has ended, which the kubelet may write a moment later."""

    def ended(pod: Json) -> bool:
        conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions") or ()}
        return pod["status"]["phase"] == phase and conditions.get("PodReadyToStartContainers") == "False"

    return ended


def has_restarted(pod: Json) -> bool:
    """Return whether a container of a running pod was restarted."""
    return any(
        status["restartCount"] and "running" in status["state"]
        for status in pod["status"].get("containerStatuses") or ()
    )


def runs_unready(pod: Json) -> bool:
    """Return whether a container of a pod runs and is not ready."""
    statuses = pod["status"].get("containerStatuses") or ()
    return any("running" in status["state"] and not status["ready"] for status in statuses)


def runs_init(pod: Json) -> bool:
    """Return whether an init container runs."""
    return any("running" in status["state"] for status in pod["status"].get("initContainerStatuses") or ())


def is_unscheduled(pod: Json) -> bool:
    """Return whether the scheduler has rejected a pod."""
    return any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions") or ())


def _named(name: str, main: Json) -> Json:
    return {**main, "name": name}


def _killed_by_memory() -> Json:
    return {
        **shell("a=0123456789; while true; do a=$a$a; done"),
        "resources": {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"memory": "16Mi"}},
    }


SECRET = [{"name": "secret", "secret": {"secretName": "absent"}}]
SECRET_MOUNT = [{"name": "secret", "mountPath": "/secret"}]
"""A kubelet waits only for volumes that a container mounts."""
VARIABLE = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "k"}}}]
FAILING_PROBE = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
SIDECAR = {**shell(SERVE), "name": "sidecar", "restartPolicy": "Always"}
GUARANTEED = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"cpu": "20m", "memory": "16Mi"}}

STATES: dict[str, tuple[Json, Callable[[Json], bool]]] = {
    "unschedulable": ({"nodeSelector": {"absent": "yes"}, "containers": [shell("true")]}, is_unscheduled),
    "container-creating": (
        {"volumes": SECRET, "containers": [shell("true", volumeMounts=SECRET_MOUNT)]},
        waits_for("ContainerCreating"),
    ),
    "pod-initializing": (
        {"initContainers": [_named("first", shell(SERVE))], "containers": [shell("true")]},
        runs_init,
    ),
    "init-image-pull-back-off": (
        {"initContainers": [_named("first", container("true", image=ABSENT))], "containers": [shell("true")]},
        waits_for("ImagePullBackOff", "initContainerStatuses"),
    ),
    "init-crash-loop-back-off": (
        {"initContainers": [_named("first", shell("exit 4"))], "containers": [shell("true")], "restartPolicy": "OnFailure"},
        waits_for("CrashLoopBackOff", "initContainerStatuses"),
    ),
    "err-image-pull": ({"containers": [container("true", image=ABSENT)]}, waits_for("ErrImagePull")),
    "image-pull-back-off": ({"containers": [container("true", image=ABSENT)]}, waits_for("ImagePullBackOff")),
    "err-image-never-pull": (
        {"containers": [{**container("true", image=ABSENT), "imagePullPolicy": "Never"}]},
        waits_for("ErrImageNeverPull"),
    ),
    "invalid-image-name": ({"containers": [container("true", image="Not A Name")]}, waits_for("InvalidImageName")),
    "create-container-config-error": ({"containers": [shell("true", env=VARIABLE)]}, waits_for("CreateContainerConfigError")),
    "running": ({"containers": [shell(SERVE)]}, runs),
    "running-guaranteed": ({"containers": [{**container("sleep", "1000"), "resources": GUARANTEED}]}, runs),
    "running-with-sidecar": ({"initContainers": [SIDECAR], "containers": [shell(SERVE)]}, runs),
    "running-not-ready": ({"containers": [shell(SERVE, readinessProbe=FAILING_PROBE)]}, runs_unready),
    "restarted": (
        {"containers": [shell(f"if test -e /d/x; then {SERVE}; fi; touch /d/x; exit 5", volumeMounts=[{"name": "d", "mountPath": "/d"}])],
         "volumes": [{"name": "d", "emptyDir": {}}], "restartPolicy": "OnFailure"},
        has_restarted,
    ),
    "crash-loop-back-off": ({"containers": [shell("exit 6")], "restartPolicy": "Always"}, waits_for("CrashLoopBackOff")),
    "succeeded": ({"containers": [shell("true")]}, has_ended("Succeeded")),
    "succeeded-with-sidecar": ({"initContainers": [SIDECAR], "containers": [shell("true")]}, has_ended("Succeeded")),
    "failed": ({"containers": [shell("echo wrong > /dev/termination-log; exit 3")]}, has_ended("Failed")),
    "failed-by-memory": ({"containers": [_killed_by_memory()]}, has_ended("Failed")),
    "failed-start": ({"containers": [container("/absent")]}, has_ended("Failed")),
    "failed-by-deadline": ({"containers": [shell(SERVE)], "activeDeadlineSeconds": 2}, has_ended("Failed")),
    "failed-init": (
        {"initContainers": [_named("first", shell("exit 8"))], "containers": [shell("true")]},
        has_ended("Failed"),
    ),
}  # fmt: skip
"""For each state: the specification of a pod, and whether the pod is in it."""


class Recorder:
    """Writes objects of the cluster to files."""

    def __init__(self, cluster: Cluster) -> None:
        self.client = ClusterClient(cluster, NAMESPACE)
        self.cluster = cluster

    def write(self, name: str, manifest: Json) -> None:
        """Write an object."""
        manifest["metadata"].pop("managedFields", None)
        if manifest["kind"] == "Node":
            manifest["status"]["nodeInfo"] |= OF_THE_MACHINE
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(json.dumps(manifest, indent=1) + "\n")
        print(name, flush=True)

    def pods_in_states(self) -> None:
        """Create a pod for each state and record it when it is in it."""
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 20, **spec},
            }
            for name, (spec, _) in STATES.items()
        ]
        self.client.submit(*pods)
        waiting = dict(STATES)
        for pod in self.changes():
            name = pod["metadata"]["name"]
            if name in waiting and waiting[name][1](pod):
                del waiting[name]
                self.write(f"pod-{name}", pod)
            if not waiting:
                return
        sys.exit(f"not in their states after {SECONDS:.0f} s: {', '.join(waiting)}\n{self.client.description()}")

    def changes(self) -> Iterator[Json]:
        """Yield each pod of the namespace, and again whenever it changes: some states last for a moment only."""
        place = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        command = ["kubectl", *place, "get", "pods", "--watch", "--output=json", f"--request-timeout={SECONDS:.0f}s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            text = ""
            try:
                for line in program.stdout:
                    text += line
                    if line == "}\n":
                        yield json.loads(text)
                        text = ""
            finally:
                program.terminate()

    def pod_that_terminates(self) -> None:
        """Record a pod within its grace period."""
        self.client.kubectl("delete", "pod", "running-guaranteed", "--wait=false")
        (pod,) = (item for item in self.client.items("pods") if item["metadata"]["name"] == "running-guaranteed")
        self.write("pod-terminating", pod)

    def untagged_image(self) -> None:
        """Record a node with an image that has no name any more: another one was imported under its tag."""
        name = self.cluster.node_names()[0]
        with tempfile.TemporaryDirectory(dir=self.cluster.folder) as scratch:
            layer, archive = Path(scratch) / "layer.tar", Path(scratch) / "image.tar"
            run("tar", "-C", scratch, "-cf", layer, "-T", "/dev/null")
            for command in ("/first", "/second"):
                images.write_archive(archive, images.ImageConfig((UNTAGGED,), command=(command,)), layer)
                run(*self.cluster.on_node(name, "ctr", "--namespace=k8s.io", "images", "import", str(archive)))

        def node() -> Json:
            return self.cluster.get("node", name)

        self.cluster.wait_until(
            lambda: any(not image["names"] for image in node()["status"]["images"]), SECONDS, "null"
        )
        self.write("node-untagged-image", node())
        self.write("csinode", self.cluster.get("csinode", name))

    def lost_node(self) -> None:
        """Record a node that is not ready, and a pod that was deleted from it."""
        (pod,) = (item for item in self.client.items("pods") if item["metadata"]["name"] == "running")
        node = pod["spec"]["nodeName"]
        self.cluster.cut(node)
        try:

            def terminating() -> Json | None:
                items = self.client.items("pods")
                return next(
                    (
                        item
                        for item in items
                        if item["metadata"]["name"] == "running" and "deletionTimestamp" in item["metadata"]
                    ),
                    None,
                )

            self.cluster.wait_until(lambda: terminating() is not None, SECONDS, "the deletion of the pod")
            self.write("node-not-ready", self.cluster.get("node", node))
            self.write("pod-terminating-on-lost-node", terminating() or {})
        finally:
            self.cluster.join(node)
            self.cluster.wait_until(lambda: is_ready(self.cluster.get("node", node)), SECONDS, node)


def main() -> None:
    """Record everything."""
    recorder = Recorder(Cluster())
    recorder.cluster.kubectl("create", "namespace", NAMESPACE)
    try:
        recorder.untagged_image()
        recorder.pods_in_states()
        recorder.pod_that_terminates()
        recorder.lost_node()
    finally:
        recorder.cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


if __name__ == "__main__":
    main()
