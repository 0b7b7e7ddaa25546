"""The cluster that Volcano's suites expect: five nodes, the configuration of its CI, and volcanopy with ``--api volcano``.

The nodes are simulated. Two parts of the cluster are played here: kube-scheduler, which binds pods without a gang, and the
kubelet's update of the mounted ConfigMap that the suites change the scheduler's configuration through.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec

from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.volcano_e2e import commands
from volcanopy.admission.context import AdmissionPolicy
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import read_kubeconfig
from volcanopy.kube.client.raw_kinds import PODS as _PODS
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.pod_stages import Stages

CONFIG = "volcano-scheduler-ci.conf"
CONFIG_NAME, CONFIG_NAMESPACE = "integration-scheduler-configmap", "volcano-system"
WORKERS = ("integration-worker", "integration-worker2", "integration-worker3", "integration-worker4")
KWOK = tuple(f"kwok-node-{number}" for number in range(8))
"""Nodes that only pods with a toleration use, of the suites that need many."""
DISCOVERY = """
networkTopologyDiscovery:
  - source: label
    enabled: true
    config:
      networkTopologyTypes:
        e2e-rack-topology:
          - nodeLabel: volcano.sh/e2e-hypernode-rack
          - nodeLabel: kubernetes.io/hostname
"""
"""The configuration of the controller of Volcano's script."""
PERIOD = 0.3
START_DELAY = 1.0
"""Seconds in which containers start: as on real nodes, a status that is written with the binding is seen before them."""
_CONFIG_MAPS: Kind[Json] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
_UNBOUND = "/api/v1/pods?fieldSelector=spec.nodeName%3D,spec.schedulerName%3Ddefault-scheduler"


def control_plane() -> ControlPlane:
    """Start a control plane with Volcano's kinds. Raises StartError."""
    controllers = (*CONTROLLERS, "replicationcontroller-controller", "root-ca-certificate-publisher-controller")
    return ControlPlane.start(crds=crds_of((VOLCANO,)), controllers=controllers)


def objects(configuration: str) -> list[Json]:
    """Return what exists in the cluster before a suite starts."""
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    workers = [_node(name, {"cpu": "4", "memory": "16Gi"}) for name in WORKERS]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
            "data": {CONFIG: configuration},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        _controllers(),
        _node("integration-control-plane", {"cpu": "4", "memory": "16Gi"}) | {"spec": {"taints": [taint]}},
        *workers,
    ]


def _controllers() -> Json:
    """Return the Deployment of Volcano's chart whose arguments a spec reads; here the controllers run in this process."""
    name = "integration-controllers"
    labels = {"app": name}
    container = {"name": name, "image": "volcanopy", "args": ["controller"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": CONFIG_NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def kwok_nodes(names: Iterable[str]) -> list[Json]:
    """Return nodes as Volcano's script makes them with kwok, each with the pod of kind's DaemonSet: suites count on it."""
    taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    made = []
    for name in names:
        node = _node(name, capacity) | {"spec": {"taints": [taint]}}
        node["metadata"]["labels"]["type"] = "kwok"
        made += [node, _network_pod(name)]
    return made


def _network_pod(node: str) -> Json:
    requests = {"cpu": "100m", "memory": "50Mi"}
    container = {"name": "kindnet-cni", "image": "kindnet", "resources": {"requests": requests, "limits": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"kindnet-{node}", "namespace": "kube-system"},
        "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]},
    }


def _node(name: str, capacity: dict[str, str]) -> Json:
    return nodes.manifest(name, 0, capacity)


@contextlib.asynccontextmanager
async def running(
    kubeconfig: Path, configuration: Path, given: Iterable[Json], *, volumes: bool = True
) -> AsyncIterator[Components]:
    """Run volcanopy and the nodes in a control plane; ``configuration`` is the file of the scheduler.

    ``volumes``: claims on volumes get some. What makes them makes claims on devices as well, as kube-controller-manager does.
    """
    discovery = configuration.with_name("controller.conf")
    await asyncio.to_thread(discovery.write_text, DISCOVERY)
    connection = read_kubeconfig((kubeconfig,))
    async with Client(connection) as client:
        creator = Creator(client)
        await creator.install_definitions(VOLCANO.name)
        await creator.create(given)
    parts = Parts(
        api=VOLCANO.name,
        scheduler=SchedulerSettings(config=configuration, config_period=PERIOD),
        controller=JobControllerSettings(config=discovery),
        admission=AdmissionSettings(policy=AdmissionPolicy(queue_gates=True)),
        claims=volumes,
        stages=Stages(start_delay=START_DELAY),
    )
    async with Components(connection, parts) as components:
        helpers = [
            asyncio.create_task(_mirror(components.client, configuration)),
            asyncio.create_task(_bind(components.client)),
            asyncio.create_task(_play(components.client)),
        ]
        try:
            yield components
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)


async def _mirror(client: Client, file: Path) -> None:
    """Write the configuration in the ConfigMap to the file whenever it changes."""
    written = ""
    while True:
        with contextlib.suppress(KubeError):
            config_map = await client.get(_CONFIG_MAPS, CONFIG_NAMESPACE, CONFIG_NAME)
            text = config_map["data"][CONFIG]
            if text != written:
                await asyncio.to_thread(_replace, file, text)
                written = text
        await asyncio.sleep(PERIOD)


def _replace(file: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


async def _bind(client: Client) -> None:
    """Bind pods of kube-scheduler, in turn to the nodes that they may use."""
    turns: Counter[tuple[str, ...]] = Counter()
    while True:
        with contextlib.suppress(KubeError):
            for pod in msgspec.json.decode(await client.get_raw(_UNBOUND))["items"] or ():
                metadata = pod["metadata"]
                if metadata.get("deletionTimestamp") or pod["spec"].get("schedulingGates"):
                    continue
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
                nodes_of = candidates(pod["spec"])
                target = {"kind": "Node", "name": nodes_of[turns[nodes_of] % len(nodes_of)]}
                turns[nodes_of] += 1
                binding = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": metadata["name"]},
                    "target": target,
                }
                with contextlib.suppress(KubeError):
                    await client.post_raw(path, binding)
        await asyncio.sleep(PERIOD)


def candidates(spec: Json) -> tuple[str, ...]:
    """Return the nodes for a pod of kube-scheduler: those that its node affinity names, as drivers do; else the workers."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            if expression["key"] == "kubernetes.io/hostname" and expression["operator"] == "In":
                return tuple(expression["values"])
    return WORKERS


async def _play(client: Client) -> None:
    """Annotate new pods with what their containers do."""
    known: set[str] = set()
    while True:
        with contextlib.suppress(KubeError):
            for pod in msgspec.json.decode(await client.get_raw("/api/v1/pods"))["items"] or ():
                metadata = pod["metadata"]
                if metadata["uid"] in known:
                    continue
                if described := commands.annotations(pod["spec"]):
                    patch = {"metadata": {"annotations": described}}
                    with contextlib.suppress(NotFound):
                        await client.patch(_PODS, metadata["namespace"], metadata["name"], patch)
                known.add(metadata["uid"])
        await asyncio.sleep(PERIOD)
