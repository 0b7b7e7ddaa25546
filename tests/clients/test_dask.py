"""Dask's own operator, unchanged, against volcanopy: `make dask-client` installs it in an environment of its own."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.clients.interpreters import interpreter
from tests.clients.servers import SECONDS, StartServer, kind_of, on_both_servers
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy.services.controllers.user_kinds import wait_for_kinds
from volcanopy_local.cluster import Parts
from volcanopy_local.simulated import nodes

PYTHON = interpreter("DASK_PYTHON", "dask_kubernetes")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="needs DASK_PYTHON, a Python with dask-kubernetes: `make dask-client`"
)
NODE = {"cpu": "4"}
KINDS = {"DaskCluster": "daskclusters", "DaskWorkerGroup": "daskworkergroups", "DaskJob": "daskjobs"}
KINDS |= {"DaskAutoscaler": "daskautoscalers"}


def definition(kind: str, plural: str) -> Json:
    """The definition of a kind of the operator; its package has the schemas in a form of its own."""
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": "kubernetes.dask.org", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.kubernetes.dask.org"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def dask_cluster() -> list[Json]:
    """The objects of the guide: a PodGroup, and a DaskCluster of a scheduler and two workers, of 3 cpus each, that names it."""

    def pod(name: str) -> Json:
        container = {"name": name, "image": "dask", "resources": {"requests": {"cpu": "3"}}}
        return {"schedulerName": "volcano", "containers": [container]}

    port = {"name": "tcp-comm", "protocol": "TCP", "port": 8786, "targetPort": "tcp-comm"}
    service = {"type": "ClusterIP", "selector": {"dask.org/cluster-name": "nightly"}, "ports": [port]}
    group = {"minMember": 3, "queue": "default"}
    metadata = {"name": "nightly", "annotations": {"scheduling.k8s.io/group-name": "nightly"}}
    spec = {
        "worker": {"replicas": 2, "spec": pod("worker")},
        "scheduler": {"spec": pod("scheduler"), "service": service},
    }
    return [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "nightly"},
            "spec": group,
        },
        {"apiVersion": "kubernetes.dask.org/v1", "kind": "DaskCluster", "metadata": metadata, "spec": spec},
    ]


def is_unschedulable(pod: Json) -> bool:
    """Whether the scheduler has considered a pod and left it waiting."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


@asynccontextmanager
async def operator(kubeconfig: Path, log: Path) -> AsyncIterator[None]:
    """Dask's operator at work."""
    command = (
        PYTHON,
        "-m",
        "kopf",
        "run",
        "--standalone",
        "--all-namespaces",
        "-m",
        "dask_kubernetes.operator.controller",
    )
    with log.open("wb") as output:
        environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.slow("starts Dask's operator, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
async def test_the_scheduler_and_workers_of_a_dask_cluster_start_together(start: StartServer, tmp_path: Path) -> None:
    """Two pods of the three would fit on the two nodes; with the third node all start."""
    async with start(nodes.manifests(2, NODE), Parts(api="both")) as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig)
        creator = Creator(server.client)
        definitions = await creator.create([definition(*names) for names in KINDS.items()])
        await wait_for_kinds(server.client, [kind_of(each) for each in definitions])
        await creator.create(dask_cluster())
        async with operator(tmp_path / "kubeconfig", tmp_path / "operator.log"):
            await server.until(PODS, lambda pods: len(pods) == 3 and all(map(is_unschedulable, pods)))
            await creator.create([nodes.manifest("node-3", 2, NODE)])
            pods = await server.until(
                PODS, lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running"] * 3
            )
        assert {pod["metadata"]["labels"]["dask.org/component"] for pod in pods} == {"scheduler", "worker"}
        group = await server.client.get(bound(POD_GROUPS, VOLCANO), "default", "nightly")
        assert group["status"]["conditions"][0]["reason"] == "GangReady"
