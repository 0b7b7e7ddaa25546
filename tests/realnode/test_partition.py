"""A cut between the two schedulers: the one without a connection places nothing, and no pod starts twice."""

import json
from functools import partial

import pytest

from hack.realnode import product
from hack.realnode.cluster import is_ready
from tests.realnode.cluster_client import ClusterClient, Json, job, shell, task

pytestmark = pytest.mark.alone
PLACE = f"--namespace={product.NAMESPACE}"


def leader(client: ClusterClient) -> tuple[str, str]:
    """Return the pod of the scheduler that holds the lease, and its node."""
    lease = json.loads(client.cluster.kubectl(PLACE, "get", "lease/volcanopy-scheduler", "--output=json"))
    holder = str(lease["spec"].get("holderIdentity", ""))
    pods = client.cluster.get(PLACE, "pods", "--selector=app.kubernetes.io/component=scheduler")["items"]
    for pod in pods:
        if pod["metadata"]["name"] in holder:
            return pod["metadata"]["name"], pod["spec"]["nodeName"]
    return "", ""


def starts(client: ClusterClient) -> dict[str, int]:
    """Return how many events of a placement each pod of the namespace has."""
    counts: dict[str, int] = {}
    for event in client.items("events", "--field-selector=reason=Scheduled,involvedObject.kind=Pod"):
        uid = event["involvedObject"]["uid"]
        counts[uid] = counts.get(uid, 0) + max(event.get("count") or 1, 1)
    return counts


def is_submitted(client: ClusterClient, manifest: Json) -> bool:
    """Submit a job, and return whether it was reviewed.

    The Service of admission names the replica on the node until the node is not ready, and the API server keeps its connection
    to it until it notices that nothing answers there: calls fail after ten seconds until then.
    """
    try:
        client.submit(manifest)
    except AssertionError as error:
        if "failed calling webhook" not in str(error):
            raise
        return False
    return True


@pytest.mark.slow("a lease expires, and a node is not ready until it is connected again")
def test_a_scheduler_that_was_cut_off_places_nothing_twice(client: ClusterClient) -> None:
    name, node = leader(client)
    others = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_not_on(node)]}}
    }
    client.cluster.cut(node)
    try:
        client.until(lambda: leader(client)[0] not in ("", name), 60)
        client.until(lambda: not is_ready(client.cluster.get("node", node)))
        for number in range(3):
            manifest = job(f"during-{number}", task("t", 3, shell("sleep 1"), pod={"affinity": others}))
            client.until(partial(is_submitted, client, manifest))
        for number in range(3):
            client.ends(f"during-{number}", "Completed")
    finally:
        client.cluster.join(node)
        client.until(lambda: is_ready(client.cluster.get("node", node)))
    for number in range(3):
        client.submit(job(f"after-{number}", task("t", 3, shell("sleep 1"))))
    for number in range(3):
        client.ends(f"after-{number}", "Completed")
    assert leader(client)[0] != name
    counts = starts(client)
    assert len(counts) == 18
    assert set(counts.values()) == {1}


def _not_on(node: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}
