"""Nodes and pods that the API server admits and the product cannot read: they are excluded alone, and it shows."""

import json
import os
import subprocess
import sys

import pytest

from tests.realnode.cluster_client import ClusterClient, Json, job, scheduler_metrics, shell, task
from tests.realnode.test_nodes import started

pytestmark = pytest.mark.alone

CONDITION: Json = {"type": "example.com/Unreadable", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}
"""The API server admits the year 0, which the product cannot read."""


def set_condition(client: ClusterClient, kind: str, name: str, condition: Json) -> None:
    """Add a condition to the status of an object, or remove it."""
    patch = json.dumps({"status": {"conditions": [condition]}})
    client.kubectl("patch", kind, name, "--subresource=status", "--type=strategic", f"--patch={patch}")


def events_of(name: str, namespace: str) -> tuple[str, ...]:
    """Return the arguments of kubectl for the events of a quarantined object."""
    return "events", f"--namespace={namespace}", f"--field-selector=involvedObject.name={name},reason=Quarantined"


def quarantined(client: ClusterClient, kind: str) -> float:
    """Return how many objects of a kind the scheduler excludes."""
    return max(scheduler_metrics(client.cluster, f'volcanopy_quarantined_objects{{kind="{kind}"}}'), default=0.0)


def explanation(client: ClusterClient, name: str) -> str:
    """Return what the command line says about a job, with its warnings."""
    command = [sys.executable, "-m", "volcanopy", "explain", "job", name, f"--namespace={client.namespace}"]
    environment = {**os.environ, "KUBECONFIG": str(client.cluster.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def pinned(name: str, node: str) -> Json:
    """A job of one pod that runs only on a node."""
    return job(name, task("t", 1, shell("true"), pod={"nodeSelector": {"kubernetes.io/hostname": node}}))


@pytest.mark.parametrize("kind", ["node", "pod"])
def test_an_object_that_cannot_be_read_is_excluded_alone(client: ClusterClient, kind: str) -> None:
    """Nothing is placed on the node, of which the capacity or what a pod uses is unknown, until it can be read again."""
    before = started(client)
    pod, (node, _) = min(before.items())
    other = next(name for name in client.cluster.node_names() if name != node)
    name, namespace = (node, "default") if kind == "node" else (pod, client.namespace)
    events = events_of(name, namespace)
    client.cluster.kubectl("delete", *events)
    set_condition(client, kind, name, CONDITION)
    try:
        client.until(lambda: quarantined(client, kind.title()) == 1)
        client.until(lambda: client.cluster.get(*events)["items"])
        message = client.cluster.get(*events)["items"][0]["message"]
        assert message.startswith("excluded from scheduling until it is changed: ")
        assert "lastTransitionTime" in message
        client.submit(pinned("here", node), pinned("elsewhere", other))
        client.ends("elsewhere", "Completed")
        assert all("nodeName" not in item["spec"] for item in client.pods("here"))
        assert name in explanation(client, "here")
        assert client.running("long") == before
        assert client.phase("long") == "Running"
    finally:
        set_condition(client, kind, name, {"type": CONDITION["type"], "$patch": "delete"})
    client.ends("here", "Completed")
    assert quarantined(client, kind.title()) == 0
    assert client.running("long") == before
