"""PodGroups of the coscheduling plugin on an API server: their pods form a gang of volcanopy, and their status follows it."""

import contextlib
from collections.abc import Callable

from tests.services.service_cluster import CRDS, Cluster, controller
from tests.services.test_pod_groups import create, group_of, pod
from volcanopy.kube.client.errors import AlreadyExists
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.controllers.user_kinds import wait_for_kinds

GANGS: Kind[Json] = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", True, dict)
EVENTS: Kind[Json] = Kind("", "v1", "Event", "events", True, dict)
LABEL = "scheduling.x-k8s.io/pod-group"
APPROVED = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
SETTINGS = JobControllerSettings(gang_apis=("coscheduling",), queue_labels=("kueue.x-k8s.io/queue-name",))


def definition() -> Json:
    """The definition of the kind, with the fields of that of scheduler-plugins."""
    number = {"type": "integer", "format": "int32"}
    quantities = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    spec = {"minMember": number, "minResources": quantities, "scheduleTimeoutSeconds": number}
    status = {"phase": {"type": "string"}, "occupiedBy": {"type": "string"}, "running": number, "succeeded": number}
    status |= {"failed": number, "scheduleStartTime": {"type": "string", "format": "date-time"}}
    parts = {name: {"type": "object", "properties": fields} for name, fields in (("spec", spec), ("status", status))}
    version = {"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": parts}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": "podgroups.scheduling.x-k8s.io", "annotations": APPROVED},
        "spec": {
            "group": GANGS.group,
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def test_pods_with_the_label_of_the_coscheduling_plugin_are_a_gang(cluster: Cluster) -> None:
    cluster.plays = False
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(CRDS, None, definition())
    await wait_for_kinds(cluster.client, (GANGS,))
    members = [pod(name) for name in ("p0", "p1")]
    for member in members:
        member["metadata"]["labels"] = {LABEL: "train"}

    def status(holds: Callable[[Json], bool]) -> Callable[[list[Json]], bool]:
        return lambda gangs: any(holds(gang.get("status") or {}) for gang in gangs)

    async with controller(cluster, SETTINGS):
        await create(cluster, *members)
        await cluster.all_of(EVENTS, lambda events: any(event["reason"] == "PodGroupNotFound" for event in events))
        assert not cluster.groups
        metadata = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "research"}}
        body = {"apiVersion": GANGS.api_version, "kind": GANGS.kind, "metadata": metadata, "spec": {"minMember": 2}}
        made = await cluster.client.create(GANGS, cluster.namespace, body)
        name = f"podgroup-{made['metadata']['uid']}"
        await cluster.until(lambda: {group_of(each) for each in cluster.pods.values()} == {name})
        spec = (await cluster.group("train"))["spec"]
        assert (spec["minMember"], spec["minResources"]["cpu"], spec["queue"]) == (2, "2", "research")
        await cluster.all_of(GANGS, status(lambda it: it.get("phase") == "Scheduling"))
        await cluster.set_pod("p0", "Running")
        await cluster.all_of(GANGS, status(lambda it: it.get("running") == 1))
        await cluster.set_pod("p1", "Running")
        await cluster.all_of(GANGS, status(lambda it: (it["phase"], it.get("running")) == ("Running", 2)))
        for number in range(2):
            await cluster.set_pod(f"p{number}", "Succeeded")
        await cluster.all_of(GANGS, status(lambda it: it["phase"] == "Finished"))
        if cluster.embedded:  # Kubernetes' garbage collector looks for new kinds every 30 s only
            await cluster.client.delete(GANGS, cluster.namespace, "train")
            await cluster.until(lambda: not cluster.groups)
