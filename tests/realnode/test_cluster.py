"""Elastic jobs, probes, local volumes, takeover by another replica, and the web page through its Service."""

import json
from typing import Any

import pytest

from hack.realnode import product
from hack.realnode.shell import run
from tests.realnode.cluster_client import SERVE, ClusterClient, Json, job, shell, task

VOLUME_FOLDER = "/var/lib/realnode-volume"


def test_an_elastic_job_grows_and_shrinks(client: ClusterClient) -> None:
    elastic = task("t", 2, shell(SERVE), minAvailable=1)
    client.submit(job("elastic", elastic, plugins={"svc": []}, minAvailable=1))
    for replicas in (2, 4, 1):
        client.patch("elastic", tasks=[{**elastic, "replicas": replicas}])
        client.until(lambda: sorted(client.running("elastic")) == [f"elastic-t-{index}" for index in range(replicas)])  # noqa: B023
    assert client.phase("elastic") == "Running"


@pytest.mark.slow("the probe fails after some seconds")
def test_a_container_whose_probe_fails_is_restarted(client: ClusterClient) -> None:
    probe = {"exec": {"command": ["test", "!", "-e", "/tmp/stuck"]}, "periodSeconds": 1, "failureThreshold": 1}
    script = f"test -e /data/again && exit 0; touch /data/again /tmp/stuck; {SERVE}"
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod: Json = {
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    killed = script.replace("exit 0' TERM", "exit 9' TERM")
    client.submit(job("probed", task("t", 1, shell(killed, livenessProbe=probe, volumeMounts=mounts), pod=pod)))
    client.ends("probed", "Completed")
    (status,) = (item["status"] for item in client.pods("probed"))
    assert status["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.slow("the volume is bound when the pod is scheduled")
def test_a_pod_goes_where_its_local_volume_is(client: ClusterClient) -> None:
    node = client.cluster.node_names()[-1]
    run(*client.cluster.on_node(node, "mkdir", "-p", VOLUME_FOLDER))
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "realnode-local"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "realnode-local",
            "local": {"path": VOLUME_FOLDER},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    }
    storage: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "realnode-local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim: Json = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "realnode-local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    client.submit(storage, volume)
    try:
        volumes = [{"mountPath": "/data", "volumeClaim": claim}]
        client.submit(job("volume", task("t", 1, shell("echo stored > /data/result")), volumes=volumes))
        client.ends("volume", "Completed")
        (pod,) = client.pods("volume")
        assert pod["spec"]["nodeName"] == node
        assert run(*client.cluster.on_node(node, "cat", f"{VOLUME_FOLDER}/result")) == "stored\n"
    finally:
        client.kubectl("delete", "batchjobs.batch.volcanopy.io", "--all", "--wait=true")
        client.kubectl("delete", "persistentvolume/realnode-local", "storageclass/realnode-local", "--wait=false")


@pytest.mark.alone
@pytest.mark.slow("the lease of the leader expires")
@pytest.mark.parametrize("part", ["scheduler", "controller"])
def test_another_replica_takes_over(client: ClusterClient, part: str) -> None:
    lease = f"lease/volcanopy-{part}"
    place = f"--namespace={product.NAMESPACE}"

    def holder() -> str:
        content: dict[str, Any] = json.loads(client.cluster.kubectl(place, "get", lease, "--output=json"))
        return str(content["spec"].get("holderIdentity", ""))

    before = holder()
    pods = client.cluster.get(place, "pods")["items"]
    (leader,) = (pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] in before)
    client.cluster.kubectl(place, "delete", "pod", leader, "--grace-period=0", "--force")
    client.submit(job("after", task("t", 2, shell("true"))))
    client.ends("after", "Completed")
    assert holder() != before


def test_the_web_page_answers_through_its_service(client: ClusterClient) -> None:
    url = f"http://volcanopy-ui.{product.NAMESPACE}.svc.cluster.local/"  # for the host of a port-forward, as users open it
    script = f"wget -q -O - --header 'Host: localhost' {url} | grep -i '<title>'"
    client.submit(job("page", task("t", 1, shell(script))))
    client.ends("page", "Completed")
