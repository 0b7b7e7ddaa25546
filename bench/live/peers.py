"""Other systems on the same API server: Volcano, kube-scheduler alone, and Kueue with kube-scheduler and Kubernetes' Jobs.

Volcano and Kueue run with the flags, configuration and webhooks of their charts, each also with higher limits (``TUNED``). What differs
from a cluster: addresses are of this machine, certificates of webhooks come from files, every user may do everything, and Kueue does
not serve its API of pending workloads, which needs a folder at the root. kube-scheduler and kube-controller-manager may send 5,000
requests in a second, not 50 and 20 as they do by default, which would be all that one sees.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.live import programs
from bench.live.bare_client import NAMESPACE, SECONDS, SPEC, Client
from bench.live.charts import CRD, PATHS, Json, arguments, mounts, object_of, on_this_machine, rendered
from bench.live.load import Load, Peer
from bench.live.services import Services
from hack.certificates import Authority
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_port
from tests.volcano_e2e.building import Programs
from tests.volcano_e2e.building import programs as volcano_programs

WIDTH = 48
"""Creates in flight, as many as of the bare client."""
REQUESTS = 5000
"""Requests in a second that a tuned program may send."""
VOLCANO_TUNED = {
    "controller_kube_api_qps": REQUESTS,
    "controller_kube_api_burst": REQUESTS,
    "controller_worker_threads": 50,
    "controller_worker_threads_for_podgroup": 50,
    "scheduler_kube_api_qps": REQUESTS,
    "scheduler_kube_api_burst": REQUESTS,
    "scheduler_schedule_period": "100ms",
    "scheduler_log_level": 1,
    "controller_log_level": 1,
    "admission_log_level": 1,
}
"""Values of Volcano's chart: no limit of requests, as many workers as help, a tenth of the period, hardly a log."""


def peer(load: Load) -> Peer:
    """Return the peer with this name; its programs are built if they do not exist. Raises BuildError."""
    if load is Load.KUBE_SCHEDULER:
        return KubeScheduler()
    if load in {Load.KUEUE, Load.KUEUE_TUNED}:
        return Kueue(tuned=load is Load.KUEUE_TUNED)
    return Volcano(volcano_programs(), VOLCANO_TUNED if load is Load.VOLCANO_TUNED else {})


class KubeScheduler:
    """kube-scheduler with its default profile: the client creates the pods, which do not start together."""

    controllers: tuple[str, ...] = ()
    users: tuple[str, ...] = ("system:kube-scheduler",)

    def __init__(self) -> None:
        self._program = programs.kube_scheduler()

    def definitions(self) -> Iterable[Json]:
        """Return none."""
        return ()

    async def start(self, client: Client, plane: ControlPlane, services: Services) -> None:
        """Start it, and wait until it has bound pods."""
        self.run(plane, services)
        await _warm_up(self, client, services)

    def run(self, plane: ControlPlane, services: Services) -> None:
        """Start the program."""
        kubeconfig = str(plane.kubeconfig_for(*self.users[:1]))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": REQUESTS, "burst": REQUESTS},
        }
        file = plane.directory / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(configuration))
        flags = {
            "config": file,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "bind-address": "127.0.0.1",
            "secure-port": free_port(),
            "cert-dir": plane.directory / "kube-scheduler",
        }
        services.run("scheduler", [str(self._program), *_flags(flags)])

    async def submit(
        self, client: Client, jobs: int, pods: int, namespace: str = NAMESPACE, prefix: str = "job"
    ) -> None:
        """Create the pods of the jobs."""

        async def create(number: int) -> None:
            job, index = divmod(number, pods)
            body = {"metadata": {"name": f"{prefix}-{job}-{index}", "labels": {"app": "bench"}}, "spec": SPEC}
            await client.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)

        await _each(jobs * pods, create)


class Volcano:
    """Volcano's scheduler, controllers and webhooks, with Jobs whose pods must start together."""

    namespace = "volcano-system"
    controllers: tuple[str, ...] = ()

    def __init__(self, built: Programs, values: Mapping[str, Any]) -> None:
        self._objects = rendered(built.chart, "volcano", self.namespace, {"custom": values})
        self._programs = {
            "admission": ("volcano-admission", built.webhooks()),
            "controller": ("volcano-controllers", built.controllers()),
            "scheduler": ("volcano-scheduler", built.scheduler()),
        }
        accounts = (deployment for deployment, _ in self._programs.values())
        self.users = tuple(f"system:serviceaccount:{self.namespace}:{name}" for name in accounts)

    def definitions(self) -> Iterable[Json]:
        """Return those of the chart."""
        return [each for each in self._objects if each["kind"] == CRD]

    async def start(self, client: Client, plane: ControlPlane, services: Services) -> None:
        """Start the programs, and wait until they have bound pods."""
        port, authority = free_port(), Authority()
        pair = authority.server(f"volcano-admission-service.{self.namespace}.svc")
        secret = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        await _create(client, self.namespace, on_this_machine(self._objects, port))
        for (name, (deployment, program)), user in zip(self._programs.items(), self.users, strict=True):
            workload = object_of(self._objects, "Deployment", deployment)
            paths = mounts(workload, self._objects, {"volcano-admission-secret": secret}, plane.directory / deployment)
            more = {"kubeconfig": plane.kubeconfig_for(user), "healthz-address": f"127.0.0.1:{free_port()}"}
            if name == "admission":
                more |= {"listen-address": "127.0.0.1", "port": port}
            else:
                more |= {"listen-address": f"127.0.0.1:{free_port()}"}
            sockets = {"DEBUG_SOCKET_DIR": str(plane.directory), "KUBE_POD_NAMESPACE": self.namespace}
            command = [str(program), *arguments(workload, paths), *_flags(more)]
            services.run(name, command, {**sockets, "HELM_RELEASE_NAME": "volcano"})
        await _warm_up(self, client, services)

    async def submit(
        self, client: Client, jobs: int, pods: int, namespace: str = NAMESPACE, prefix: str = "job"
    ) -> None:
        """Create the Jobs."""

        async def create(number: int) -> None:
            task = {"name": "task", "replicas": pods, "template": {"spec": SPEC}}
            body = {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": f"{prefix}-{number}"},
                "spec": {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task]},
            }
            await client.send("POST", f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs", body)

        await _each(jobs, create)


class Kueue:
    """Kueue admits Kubernetes' Jobs as a whole; kube-controller-manager creates their pods, and kube-scheduler binds them one by one."""

    namespace = "kueue-system"
    controllers: tuple[str, ...] = ("job-controller",)
    users: tuple[str, ...] = (
        *KubeScheduler.users,
        "system:kube-controller-manager",
        "system:serviceaccount:kueue-system:kueue-controller-manager",
    )

    def __init__(self, *, tuned: bool) -> None:
        self._built, self._scheduler, self._tuned = programs.kueue(), KubeScheduler(), tuned
        values = {"controllerManager": {"featureGates": [{"name": "VisibilityOnDemand", "enabled": False}]}}
        self._objects = rendered(self._built.chart, "kueue", self.namespace, values)
        self._port = free_port()

    def definitions(self) -> Iterable[Json]:
        """Return those of the chart."""
        return on_this_machine([each for each in self._objects if each["kind"] == CRD], self._port)

    async def start(self, client: Client, plane: ControlPlane, services: Services) -> None:
        """Start the programs, create a queue whose quota all pods fit in, and wait until pods are bound."""
        await _create(client, self.namespace, on_this_machine(self._objects, self._port))
        self._scheduler.run(plane, services)
        certificates = plane.directory / "kueue-certificates"
        certificates.mkdir()
        file = "controller_manager_config.yaml"
        configuration = yaml.safe_load(object_of(self._objects, "ConfigMap", "kueue-manager-config")["data"][file])
        configuration |= {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
            "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(certificates)},
        }
        configuration["leaderElection"]["resourceNamespace"] = self.namespace
        if self._tuned:
            configuration["clientConnection"] = {"qps": REQUESTS, "burst": REQUESTS}
        path = plane.directory / file
        path.write_text(yaml.safe_dump(configuration))
        workload = object_of(self._objects, "Deployment", "kueue-controller-manager")
        flags = arguments(workload, {f"/{file}": path})
        more = _flags({"kubeconfig": plane.kubeconfig_for(self.users[-1])})
        services.run("kueue", [str(self._built.manager), *flags, *more])
        await self._mount(client, certificates, services)
        for path_of_kind, body in _queues():
            await _accepted(client, services, path_of_kind, body)
        await _warm_up(self, client, services)

    async def _mount(self, client: Client, folder: Path, services: Services) -> None:
        """Write the certificates that the manager stores in its Secret, as the kubelet does."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/kueue-webhook-server-cert"
        while True:
            services.check()
            files = json.loads(await client.send("GET", path)).get("data") or {}
            if "tls.crt" in files:
                break
            await asyncio.sleep(0.2)
        for name, content in files.items():
            (folder / name).write_bytes(base64.b64decode(content))

    async def submit(
        self, client: Client, jobs: int, pods: int, namespace: str = NAMESPACE, prefix: str = "job"
    ) -> None:
        """Create the Jobs."""

        async def create(number: int) -> None:
            metadata = {"name": f"{prefix}-{number}", "labels": {"kueue.x-k8s.io/queue-name": "default"}}
            spec = {"parallelism": pods, "completions": pods, "suspend": True, "template": {"spec": SPEC}}
            body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
            await client.send("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)

        await _each(jobs, create)


def _queues() -> list[tuple[str, Json]]:
    """Return a queue of each namespace with a quota that is never reached, and what it consists of."""
    group = "/apis/kueue.x-k8s.io/v1beta2"
    quota = [{"name": "cpu", "nominalQuota": "1000000"}, {"name": "memory", "nominalQuota": "1000000Gi"}]
    resources = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": quota}]}
    objects: list[tuple[str, str, Json]] = [
        (f"{group}/resourceflavors", "ResourceFlavor", {}),
        (f"{group}/clusterqueues", "ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [resources]}),
        (f"{group}/namespaces/{NAMESPACE}/localqueues", "LocalQueue", {"clusterQueue": "default"}),
        (f"{group}/namespaces/warm/localqueues", "LocalQueue", {"clusterQueue": "default"}),
    ]
    version = group.removeprefix("/apis/")
    return [
        (path, {"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": spec})
        for path, kind, spec in objects
    ]


async def _create(client: Client, namespace: str, objects: Iterable[Json]) -> None:
    """Create the namespace and the objects in it; those of other kinds are left out."""
    await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for each in objects:
        if each["kind"] in PATHS:
            await client.send("POST", PATHS[each["kind"]].format(namespace), each)


async def _accepted(client: Client, services: Services, path: str, body: Json) -> None:
    """Create an object as soon as the webhooks answer. Raises TimeoutError if they do not."""
    async with asyncio.timeout(SECONDS):
        while True:
            services.check()
            try:
                await client.send("POST", path, body)
            except RuntimeError:
                await asyncio.sleep(0.5)
            else:
                return


async def _warm_up(system: Peer, client: Client, services: Services) -> None:
    """Submit a job elsewhere, and wait until its pods are bound: webhooks are there and all caches are filled."""
    async with asyncio.timeout(SECONDS):
        while True:
            services.check()
            try:
                await system.submit(client, 1, 2, "warm", "warm")
            except RuntimeError:  # the webhook does not answer yet
                await asyncio.sleep(0.5)
            else:
                break
        while True:
            services.check()
            pods = json.loads(await client.send("GET", "/api/v1/namespaces/warm/pods"))["items"]
            if len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods):
                return
            await asyncio.sleep(0.2)


async def _each(count: int, create: Callable[[int], Awaitable[None]]) -> None:
    """Create so many objects."""
    rest = iter(range(count))

    async def worker() -> None:
        for number in rest:
            await create(number)

    await asyncio.gather(*(worker() for _ in range(WIDTH)))


def _flags(settings: Mapping[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items()]
