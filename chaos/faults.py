"""The faults, one class each, and the table of all: what it needs, and what it does."""

import os
import resource
from abc import abstractmethod
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

from chaos import node_failure, wrong_clock
from chaos.fault import OWN_NODES, OWN_SERVER, OWN_SERVICES, Fault
from chaos.pressure import BusyMachine, EtcdCompacted, EtcdFull, Overload
from chaos.processes import CAN_LIMIT
from chaos.site import Site, surely
from volcanopy.kube import machine
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.kinds import Kind
from volcanopy_local.simulated import nodes

DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments", True, dict)
COMPONENT = "app.kubernetes.io/component"


class _ServiceFault(Fault):
    def missing(self, site: Site) -> str:
        return "" if site.services else OWN_SERVICES


class Kill(_ServiceFault):
    """A service process is killed; it starts again at once."""

    name = "kill a service"

    async def inject(self, site: Site) -> bool:
        site.rng.choice(site.services).send(SIGKILL)
        return True


class Pause(_ServiceFault):
    """A service process stands still for up to 15 s, longer than its Lease, and continues."""

    name = "pause a service"

    async def inject(self, site: Site) -> bool:
        with site.rng.choice(site.services).paused():
            await site.pause(1, 15)
        return True


class MemoryLimit(_ServiceFault):
    """A service process gets no more memory for some seconds, and is then killed, as the kernel does at a limit."""

    name = "memory limit of a service"

    def missing(self, site: Site) -> str:
        return super().missing(site) or ("" if CAN_LIMIT else "limits of running processes need Linux")

    async def inject(self, site: Site) -> bool:
        service = site.rng.choice(site.services)
        if not (used := service.address_space()):
            return False
        with service.limited(resource.RLIMIT_AS, used):
            await site.pause(1, 5)
        service.send(SIGKILL)
        return True


class ClockWrong(_ServiceFault):
    """A service process starts again with a clock that is wrong for a while, at once or after some seconds."""

    name = "wrong clock of a service"

    async def inject(self, site: Site) -> bool:
        seconds = site.rng.choice((-3600.0, -20.0, 20.0, 3600.0))
        with site.alone("a clock") as alone:
            if alone:
                after = site.rng.choice((0.0, 5.0))
                with site.rng.choice(site.services).wrapped(Path(wrong_clock.__file__), str(seconds), str(after)):
                    await site.pause(8, 25)
        return alone


class WebhookDown(Fault):
    """The admission webhook does not answer for some seconds."""

    name = "webhook down"

    def missing(self, site: Site) -> str:
        if any(service.name == "admission" for service in site.services) or self._deployment(site):
            return ""
        return "no admission of this run (--run-services), and none of the chart in the cluster"

    @staticmethod
    def _deployment(site: Site) -> tuple[str, str] | None:
        for body in site.installed:
            if body["metadata"]["labels"].get(COMPONENT) == "admission":
                return body["metadata"]["namespace"], body["metadata"]["name"]
        return None

    async def inject(self, site: Site) -> bool:
        with site.alone("admission") as alone:
            if not alone:
                return False
            for service in site.services:
                if service.name == "admission":
                    with service.down():
                        await site.pause(2, 8)
                    return True
            deployment = self._deployment(site)
            assert deployment is not None
            scale = await site.client.get(DEPLOYMENTS, *deployment)
            try:
                await site.client.patch(DEPLOYMENTS, *deployment, {"spec": {"replicas": 0}})
                await site.pause(5, 15)
            finally:
                await surely(
                    lambda: site.client.patch(
                        DEPLOYMENTS, *deployment, {"spec": {"replicas": scale["spec"]["replicas"]}}
                    )
                )
        return True


class DeleteServicePod(Fault):
    """A pod of the chart's Deployments is deleted without grace; its Deployment replaces it."""

    name = "delete a pod of a service"

    def missing(self, site: Site) -> str:
        return "" if site.installed else "no Deployments of the chart in the cluster"

    async def inject(self, site: Site) -> bool:
        deployment = site.rng.choice(site.installed)
        namespace, labels = deployment["metadata"]["namespace"], deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = (await site.client.list(raw_kinds.PODS, namespace, label_selector=selector)).items
        if pods:
            await site.client.delete(raw_kinds.PODS, namespace, site.rng.choice(pods)["metadata"]["name"], grace=0)
        return bool(pods)


class _NetworkFault(Fault):
    def missing(self, site: Site) -> str:
        return "" if site.proxies else OWN_SERVICES


class Cut(_NetworkFault):
    """The network between a service and the API server carries nothing for up to 15 s."""

    name = "cut the network"

    async def inject(self, site: Site) -> bool:
        with site.rng.choice(site.proxies).cut():
            await site.pause(0.5, 15)
        return True


class Delay(_NetworkFault):
    """Requests and answers of a service take up to 2 s longer for a while."""

    name = "delay the network"

    async def inject(self, site: Site) -> bool:
        with site.rng.choice(site.proxies).delayed(site.rng.uniform(0.02, 2)):
            await site.pause(2, 10)
        return True


class Reset(_NetworkFault):
    """All connections of a service are reset."""

    name = "reset connections"

    async def inject(self, site: Site) -> bool:
        return site.rng.choice(site.proxies).reset() > 0


class Storm(_NetworkFault):
    """Many requests of a service are answered with an error of this code for a while."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.name = f"storm of {code}"  # type: ignore[misc]

    async def inject(self, site: Site) -> bool:
        with site.rng.choice(site.proxies).storm(self.code, site.rng.uniform(0.1, 0.9)):
            await site.pause(1, 8)
        return True


class TokenRotated(_NetworkFault):
    """The token of a service is replaced: for up to 3 s, its file has the old one, which is rejected."""

    name = "rotate a token"

    def missing(self, site: Site) -> str:
        return "" if any(proxy.token_file for proxy in site.proxies) else OWN_SERVICES

    async def inject(self, site: Site) -> bool:
        proxy = site.rng.choice(site.proxies)
        with site.alone(proxy.url) as alone:
            if alone:
                with proxy.token_rotated(f"{site.rng.getrandbits(64):x}"):
                    await site.pause(0, 3)
        return alone


class _NodeFault(Fault):
    def missing(self, site: Site) -> str:
        return "" if site.kubelet is not None and site.node_names else OWN_NODES

    async def inject(self, site: Site) -> bool:
        name = site.rng.choice(site.node_names)
        with site.alone(name) as alone:
            if alone:
                await self.strike(site, name)
        return alone

    @abstractmethod
    async def strike(self, site: Site, node: str) -> None:
        """Inject the fault into a node."""

    @staticmethod
    async def fail(site: Site, node: str, least: float, most: float) -> None:
        """Let a node fail and return."""
        kubelet = site.kubelet
        assert kubelet is not None
        try:
            await node_failure.fail(kubelet.nodes, site.client, node, machine.epoch())
            await site.pause(least, most)
        finally:
            await surely(lambda: node_failure.restore(kubelet.nodes, site.client, node, machine.epoch()))


class NodeFails(_NodeFault):
    """A node sends no heartbeats and its pods do not change for some seconds."""

    name = "a node fails"

    async def strike(self, site: Site, node: str) -> None:
        await self.fail(site, node, 3, 12)


class NodeFlaps(_NodeFault):
    """A node fails and returns several times in a few seconds."""

    name = "a node flaps"

    async def strike(self, site: Site, node: str) -> None:
        for _ in range(4):
            await self.fail(site, node, 0.3, 0.8)
            await site.pause(0.3, 0.8)


class NodeLost(_NodeFault):
    """A node disappears with its pods; an empty one of its name comes later."""

    name = "a node is lost"

    async def strike(self, site: Site, node: str) -> None:
        body = (await site.client.get(raw_kinds.NODES, None, node))["status"]["capacity"]
        try:
            await site.client.delete(raw_kinds.NODES, None, node)
            await site.pause(3, 12)
        finally:
            manifest = nodes.manifest(node, capacity=body)
            await surely(lambda: site.client.create(raw_kinds.NODES, None, manifest))


class _UserFault(Fault):
    def missing(self, site: Site) -> str:
        return ""


class DeletePod(_UserFault):
    """A user deletes a pod of a job, sometimes without grace."""

    name = "delete a pod by hand"

    async def inject(self, site: Site) -> bool:
        if (pod := site.a_pod()) is None:
            return False
        grace = site.rng.choice((None, 0))
        await site.client.delete(raw_kinds.PODS, site.namespace, pod["metadata"]["name"], grace=grace)
        return True


class EvictPod(_UserFault):
    """A pod of a job is evicted, as a drain does."""

    name = "evict a pod"

    async def inject(self, site: Site) -> bool:
        if (pod := site.a_pod()) is None:
            return False
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await site.client.post_raw(raw_kinds.PODS.path(site.namespace, name, "eviction"), body)
        return True


class DeletePodGroup(_UserFault):
    """A user deletes the PodGroup of a job. Admission may reject it."""

    name = "delete a PodGroup by hand"

    async def inject(self, site: Site) -> bool:
        if not site.judge.groups:
            return False
        group = site.rng.choice(list(site.judge.groups.values()))
        await site.client.delete(raw_kinds.POD_GROUPS, site.namespace, group["metadata"]["name"])
        return True


class EditJob(_UserFault):
    """A user changes the replicas and the minimum of a running job."""

    name = "edit a job"

    async def inject(self, site: Site) -> bool:
        if (job := site.a_job()) is None:
            return False
        name, tasks = job["metadata"]["name"], job["spec"]["tasks"]
        count = site.rng.randint(1, 6)
        expected = site.judge.expected
        if name in expected:
            expected[name] = max(expected[name], count)
        first = {key: value for key, value in tasks[0].items() if key != "minAvailable"}
        changed = [{**first, "replicas": count}, *tasks[1:]]
        patch = {"spec": {"tasks": changed, "minAvailable": site.rng.randint(1, count)}}
        await site.client.patch(raw_kinds.JOBS, site.namespace, name, patch)
        return True


class DeleteJob(_UserFault):
    """A user deletes a job in the middle of its work."""

    name = "delete a job"

    async def inject(self, site: Site) -> bool:
        if (job := site.a_job()) is None:
            return False
        name = job["metadata"]["name"]
        site.judge.expected.pop(name, None)
        await site.client.delete(raw_kinds.JOBS, site.namespace, name, propagation="Background")
        return True


class _ServerFault(Fault):
    def missing(self, site: Site) -> str:
        return "" if site.server is not None else OWN_SERVER


class KillServer(_ServerFault):
    """The API server is killed and starts again on its file."""

    name = "kill the API server"

    async def inject(self, site: Site) -> bool:
        assert site.server is not None
        with site.alone("server") as alone:
            if alone:
                with site.server.down():
                    await site.pause(0, 3)
                await surely(lambda: site.client.get_raw("/readyz"))
        return alone


class DiskFull(_ServerFault):
    """The file of the API server cannot grow for some seconds, as on a full disk."""

    name = "full disk of the API server"

    def missing(self, site: Site) -> str:
        return super().missing(site) or ("" if CAN_LIMIT else "limits of running processes need Linux")

    async def inject(self, site: Site) -> bool:
        assert site.server is not None
        with site.alone("server") as alone:
            if alone:
                with site.server.limited(resource.RLIMIT_FSIZE, 0):
                    await site.pause(0.5, 4)
        return alone


class PauseServer(Fault):
    """A process of the API server, such as etcd, stands still for some seconds."""

    name = "pause the API server or etcd"

    def missing(self, site: Site) -> str:
        return "" if self._pids(site) else "no process of the API server on this machine: --pause-process NAME=PID"

    @staticmethod
    def _pids(site: Site) -> list[int]:
        own = [site.server.pid] if site.server is not None and site.server.pid is not None else []
        return [*site.pids.values(), *own]

    async def inject(self, site: Site) -> bool:
        with site.alone("server") as alone:
            if not alone or not (pids := self._pids(site)):
                return False
            pid = site.rng.choice(pids)
            os.kill(pid, SIGSTOP)
            try:
                await site.pause(0.5, 6)
            finally:
                os.kill(pid, SIGCONT)
        return True


FAULTS: tuple[Fault, ...] = (
    Kill(),
    Pause(),
    MemoryLimit(),
    ClockWrong(),
    WebhookDown(),
    DeleteServicePod(),
    Cut(),
    Delay(),
    Reset(),
    Storm(409),
    Storm(429),
    Storm(500),
    TokenRotated(),
    NodeFails(),
    NodeFlaps(),
    NodeLost(),
    DeletePod(),
    EvictPod(),
    DeletePodGroup(),
    EditJob(),
    DeleteJob(),
    KillServer(),
    DiskFull(),
    PauseServer(),
    BusyMachine(),
    Overload(),
    EtcdFull(),
    EtcdCompacted(),
)
"""All faults."""
