"""What the page of a running job shows of its pods: the node, and what they use of what they request."""

from embedded_apiserver.context import ContainerUsage, Measurement
from tests.cli.ui.api_server import connection, install, serving, submit
from volcanopy.api import names
from volcanopy.cli.ui.job_page import job_document
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import JOBS, PODS

CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}


async def measured() -> Measurement:
    usage = ContainerUsage("default", "training-worker-0", "main", "n1", cpu=0.5, memory=2**20)
    return Measurement(15.0, frozenset({"n1"}), [usage])


async def test_a_running_pod_has_its_node_and_what_it_uses_of_what_it_requests() -> None:
    async with serving() as server:
        await install(server)
        await submit(server, "training")
        async with Client(connection(server)) as client:
            job = (await client.get(JOBS, "default", "training"))["metadata"]
            owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": job["name"], "uid": job["uid"]}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "training-worker-0",
                    "labels": {names.JOB_NAME: "training"},
                    "ownerReferences": [owner | {"controller": True}],
                },
                "spec": {"containers": [CONTAINER], "nodeName": "n1"},
            }
            await client.create(PODS, "default", pod)
            await client.patch_status(PODS, "default", "training-worker-0", {"status": {"phase": "Running"}})
            before = (await job_document(client, "default", "training", 0.0))["pods"]["items"][0]
            server.serve_metrics(measured)
            after = (await job_document(client, "default", "training", 0.0))["pods"]["items"][0]
    assert (before["node"], before["requested"], before["used"]) == ("n1", {"cpu": 2000}, None)
    assert after["used"] == {"cpu": 500, "memory": 2**20}
