"""The chart at work without a kubelet: its containers as processes, under the service accounts that it gives them.

:class:`Installation` does for the rendered Deployments what a node would: it mounts ConfigMaps (as a directory in which a
link is swapped when one changes), asks for a token of the service account, passes the arguments on, and tells the Service
where the pod answers. Only ports and paths differ from the manifest, since all pods share one machine here.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hack.certificates import kubeconfig
from tests.charts.rendering import NAMESPACE, Json, one
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_port

READY_SECONDS = 180.0
STOP_SECONDS = 120.0
PROGRAM = (sys.executable, "-m", "volcanopy")
"""What the image's entry point is."""
APISERVER_FLAGS = ("--enable-aggregator-routing=true",)
"""Without a kube-proxy a Service has no address that answers: the API server must look up its endpoints itself."""


class DidNotStartError(Exception):
    """A process ended, or was not ready in time; ends with what it wrote."""


def token(plane: ControlPlane, namespace: str, account: str, seconds: int = 3600) -> str:
    """A token of a service account, as a kubelet asks for."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = plane.request("POST", path, {"spec": {"expirationSeconds": seconds}})
    return str(answer["status"]["token"])


def machine_address() -> str:
    """An address of this machine that is not loopback: endpoints may not be loopback addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
    return address


def bind_address(part: str) -> str:
    """The address that a part listens on; that of the webhook is reachable through a Service."""
    return machine_address() if part == "admission" else "127.0.0.1"


@dataclass
class Pod:
    """One process of a Deployment. ``ports`` are by their names in the manifest."""

    name: str
    part: str
    folder: Path
    ports: Mapping[str, int]
    process: subprocess.Popen[bytes]
    stopped: bool = False

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (self.folder / "log").read_text(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        """Ask its port, as a kubelet does: the status (0 if it does not answer) and the text."""
        try:
            with urllib.request.urlopen(
                f"http://{bind_address(self.part)}:{self.ports['http']}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except (urllib.error.URLError, OSError):
            return 0, ""

    def ready(self, seconds: float = READY_SECONDS) -> Self:
        """Wait until it says that it is ready. Raises DidNotStartError."""
        deadline = time.monotonic() + seconds
        while self.get("/readyz")[0] != 200:
            if self.process.poll() is not None:
                raise DidNotStartError(f"{self.name} has ended ({self.process.returncode}):\n{self.log[-4000:]}")
            if time.monotonic() > deadline:
                raise DidNotStartError(f"{self.name} was not ready after {seconds:g} s:\n{self.log[-4000:]}")
            time.sleep(0.05)
        return self

    def mount(self, data: Mapping[str, str]) -> Path:
        """Put the keys of a ConfigMap where the process reads them, or change them, as a kubelet does."""
        return mount(self.folder / "config", data)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; gives the exit code."""
        self.stopped = True
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


def mount(folder: Path, data: Mapping[str, str]) -> Path:
    """A ConfigMap as a directory: the files are links through ``..data``, which is swapped for another at once."""
    folder.mkdir(exist_ok=True)
    version = f"..{time.time_ns()}"
    (folder / version).mkdir()
    for key, text in data.items():
        (folder / version / key).write_text(text)
        if not (folder / key).is_symlink():
            (folder / key).symlink_to(f"..data/{key}")
    (folder / "..fresh").symlink_to(version)
    (folder / "..fresh").replace(folder / "..data")
    return folder


@dataclass
class Installation:
    """Processes of the objects of a chart that were applied to ``plane``; ends them all when its ``with`` block is left."""

    plane: ControlPlane
    objects: list[Json]
    folder: Path
    namespace: str = NAMESPACE
    pods: list[Pod] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.kill()
            pod.process.wait()

    def start(self, part: str, number: int = 0) -> Pod:
        """Start one replica of ``scheduler``, ``controller`` or ``admission``. It is not ready yet when this returns."""
        deployment = self._deployment(part)
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        folder = self.folder / f"{part}-{number}-{len(self.pods)}"
        folder.mkdir(parents=True)
        ports = {each["name"]: free_port() for each in container["ports"]}
        changes = {f"={each['containerPort']}": f"={ports[each['name']]}" for each in container["ports"]}
        for each in container["volumeMounts"]:
            (volume,) = [known for known in spec["volumes"] if known["name"] == each["name"]]
            if "configMap" in volume:
                result = one(self.objects, "ConfigMap", volume["configMap"]["name"])
                changes[each["mountPath"]] = os.fspath(mount(folder / "config", result["data"]))
            else:
                (folder / each["name"]).mkdir()
        pod = Pod(
            name=f"{deployment['metadata']['name']}-{number}",
            part=part,
            folder=folder,
            ports=ports,
            process=self._run(part, folder, container, spec["serviceAccountName"], changes, f"{part}-{number}"),
        )
        self.pods.append(pod)
        self.publish(part)
        return pod

    def _deployment(self, part: str) -> Json:
        label = "app.kubernetes.io/component"
        (obj,) = [
            each for each in self.objects if each["kind"] == "Deployment" and each["metadata"]["labels"][label] == part
        ]
        return obj

    def _run(
        self, part: str, folder: Path, container: Json, account: str, changes: Mapping[str, str], name: str
    ) -> subprocess.Popen[bytes]:
        arguments = list(container["args"])
        for was, becomes in changes.items():
            arguments = [each.replace(was, becomes) for each in arguments]
        arguments.append(f"--bind-address={bind_address(part)}")
        mine = token(self.plane, self.namespace, account)
        (folder / "kubeconfig").write_text(kubeconfig(self.plane.url, self.plane.ca, account, mine))
        known = {"metadata.name": name, "metadata.namespace": self.namespace}
        given = {each["name"]: known[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}
        environment = os.environ | given | {"KUBECONFIG": str(folder / "kubeconfig"), "TMPDIR": str(folder / "tmp")}
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*PROGRAM, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def publish(self, part: str) -> None:
        """Tell the Service of a part where its living pods answer: the place of the endpoint slice controller."""
        address = machine_address()
        living = [pod for pod in self.pods if pod.part == part and not pod.stopped and pod.process.poll() is None]
        service = one(self.objects, "Service", self._deployment(part)["metadata"]["name"])
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        name = service["metadata"]["name"]
        selector = f"kubernetes.io/service-name={name},endpointslice.kubernetes.io/managed-by=volcanopy-tests"
        self.plane.request("DELETE", f"{path}?labelSelector={selector}")
        for number, pod in enumerate(living):
            labels = dict(each.split("=") for each in selector.split(","))
            ports: list[Any] = [{"name": key, "port": port, "protocol": "TCP"} for key, port in pod.ports.items()]
            endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
            body = {
                "metadata": {"name": f"{name}-{number}-{len(self.pods)}", "labels": labels},
                "addressType": "IPv4",
                "ports": ports,
                "endpoints": endpoints,
            }
            self.plane.request("POST", path, body)


def apply(plane: ControlPlane, objects: Iterable[Json], kubectl: Path, namespace: str = NAMESPACE) -> str:
    """Apply objects as an administrator does, the namespace first; gives what kubectl printed."""
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [made, *objects]})
    command = [os.fspath(kubectl), f"--kubeconfig={plane.kubeconfig}", "apply", "--server-side", "--filename=-"]
    done = subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
