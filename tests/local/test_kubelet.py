"""The simulated kubelet: what becomes of pods and nodes, as everybody else sees it."""

import asyncio
from typing import Any

import pytest

from chaos import node_failure
from embedded_apiserver.server import ApiServer
from tests.local.conftest import QUICK
from tests.local.rig import NODES, PODS, Rig, rig
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import Conflict
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.simulated import nodes

LEASES: Kind[Json] = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, dict)
FOREVER = {"duration": "forever"}


def held(manifest: Json, kind: str) -> str:
    return next(
        (condition["status"] for condition in manifest["status"].get("conditions") or () if condition["type"] == kind),
        "",
    )


async def test_a_pod_has_the_statuses_of_a_real_kubelet(kubelet: Rig) -> None:
    await kubelet.run("p", annotations={"duration": "300ms"})
    running = (await kubelet.pod("p", "Running"))["status"]
    assert running["podIPs"] == [{"ip": running["podIP"]}]
    assert running["hostIP"] == "172.16.0.1"
    assert list(running["containerStatuses"][0]["state"]) == ["running"]
    ready = await kubelet.pod("p", "Running")
    assert [held(ready, kind) for kind in ("Initialized", "Ready", "ContainersReady")] == ["True"] * 3
    ended = await kubelet.pod("p", "Succeeded")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert held(ended, "Ready") == "False"


async def test_a_pod_lifecycle_takes_two_writes(kubelet: Rig) -> None:
    before = kubelet.kubelet.written
    for number in range(20):
        await kubelet.run(f"p{number}", annotations={"duration": "300ms"})
    await kubelet.until(PODS, lambda pods: all(pod["status"]["phase"] == "Succeeded" for pod in pods.values()))
    assert kubelet.kubelet.written - before <= 2 * 20


async def test_a_slow_start_is_reported_as_container_creating(kubelet: Rig) -> None:
    await kubelet.run("p", annotations={"start-delay": "1h"})
    pods = await kubelet.until(PODS, lambda pods: bool(pods["p"]["status"].get("containerStatuses")))
    assert pods["p"]["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert pods["p"]["status"]["phase"] == "Pending"


async def test_a_failing_container_is_restarted_until_it_succeeds(kubelet: Rig) -> None:
    annotations = {"duration": "50ms", "exit-code": "1,2,0"}
    await kubelet.run("p", annotations=annotations, restartPolicy="OnFailure")
    ended = await kubelet.pod("p", "Succeeded")
    status = ended["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (2, 0)


async def test_an_invalid_annotation_fails_the_pod_and_is_named(kubelet: Rig) -> None:
    await kubelet.run("p", annotations={"duration": "a while"})
    status = (await kubelet.pod("p", "Failed"))["status"]
    assert status["reason"] == "InvalidAnnotation"
    assert "sim.volcanopy.io/duration: 'a while' is not a duration" in status["message"]


async def test_a_changed_annotation_counts_from_then_on(kubelet: Rig) -> None:
    await kubelet.run("p", annotations=FOREVER)
    await kubelet.pod("p", "Running")
    patch = {"metadata": {"annotations": {"sim.volcanopy.io/duration": "10ms"}}}
    await kubelet.client.patch(PODS, "default", "p", patch)
    await kubelet.pod("p", "Succeeded")


async def test_a_deleted_pod_stops_within_its_grace_and_is_gone(kubelet: Rig) -> None:
    """It is seen to have failed before it goes, by the signal that stopped it."""
    await kubelet.run("p", annotations=FOREVER)
    await kubelet.pod("p", "Running")
    seen: list[Json] = []

    def ended(pods: dict[str, Json]) -> bool:
        seen.extend(pods.values())
        return not pods

    watching = asyncio.create_task(kubelet.until(PODS, ended))
    await kubelet.client.delete(PODS, "default", "p")
    await watching
    last = seen[-1]["status"]
    assert (last["phase"], last["containerStatuses"][0]["state"]["terminated"]["exitCode"]) == ("Failed", 143)


async def test_a_pod_that_does_not_stop_in_time_is_killed(kubelet: Rig) -> None:
    """A second deletion shortens the grace period."""
    await kubelet.run("p", annotations={**FOREVER, "stop-delay": "1h"})
    await kubelet.pod("p", "Running")
    await kubelet.client.delete(PODS, "default", "p")
    await kubelet.client.delete(PODS, "default", "p", grace=1)
    pods = await kubelet.until(PODS, lambda pods: pods["p"]["status"]["phase"] == "Failed")
    assert pods["p"]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    await kubelet.gone("p")


async def test_a_pod_that_waits_for_its_start_can_be_deleted(kubelet: Rig) -> None:
    """Whether or not the deletion comes while the kubelet writes that the pod is being prepared."""
    for number in range(20):
        name = f"p{number}"
        await kubelet.run(name, annotations={"start-delay": "1h"})
        for _ in range(number):
            await asyncio.sleep(0)
        await kubelet.client.delete(PODS, "default", name)
        await kubelet.gone(name)


async def test_pods_on_other_nodes_are_ignored(server: ApiServer) -> None:
    async with rig(server, QUICK, adopt_all=False) as made:
        await made.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
        await made.client.create(NODES, None, nodes.manifest("ours"))
        await made.run("theirs", "real")
        await made.run("ours", "ours")
        await made.pod("ours", "Succeeded")
        assert (await made.client.get(PODS, "default", "theirs"))["status"]["phase"] == "Pending"


async def test_a_restarted_kubelet_continues_running_pods(server: ApiServer) -> None:
    async with rig(server, QUICK, nodes=1) as first:
        await first.run("long", annotations=FOREVER)
        await first.run("short", annotations={"duration": "400ms"})
        before = (await first.pod("long", "Running"))["status"]
        await first.pod("short", "Running")
    async with rig(server, QUICK) as second:
        await second.pod("short", "Succeeded")
        after = (await second.client.get(PODS, "default", "long"))["status"]
        assert after == before
        await second.run("new")
        new = (await second.pod("new", "Succeeded"))["status"]
        assert new["podIP"] not in {before["podIP"], ""}


async def test_nodes_are_ready_and_send_heartbeats(kubelet: Rig) -> None:
    result = await kubelet.until(NODES, lambda actual: all(held(node, "Ready") == "True" for node in actual.values()))
    assert list(result) == ["node-1", "node-2"]
    assert result["node-1"]["status"]["allocatable"] == dict(nodes.DEFAULT_CAPACITY)
    leases = await kubelet.until(LEASES, lambda leases: len(leases) == 2)
    assert leases["node-2"]["spec"]["holderIdentity"] == "node-2"
    assert leases["node-2"]["metadata"]["ownerReferences"][0]["uid"] == result["node-2"]["metadata"]["uid"]


async def test_nodes_created_by_users_are_simulated(kubelet: Rig) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}, "status": {"capacity": {"cpu": "2"}}}
    await kubelet.client.create(NODES, None, body)
    result = await kubelet.until(NODES, lambda actual: "own" in actual and held(actual["own"], "Ready") == "True")
    assert result["own"]["status"]["allocatable"] == {**nodes.DEFAULT_CAPACITY, "cpu": "2"}
    await kubelet.run("p", "own")
    await kubelet.pod("p", "Succeeded")


async def test_a_pod_that_comes_before_its_node_runs_once_the_node_is_there(kubelet: Rig) -> None:
    await kubelet.run("p", "late")
    await kubelet.client.create(NODES, None, nodes.manifest("late"))
    await kubelet.pod("p", "Succeeded")


async def test_the_pods_of_a_deleted_node_are_deleted(kubelet: Rig) -> None:
    await kubelet.run("p", "node-1", annotations=FOREVER)
    await kubelet.run("q", "node-2", annotations=FOREVER)
    await kubelet.pod("p", "Running")
    await kubelet.pod("q", "Running")
    await kubelet.client.delete(NODES, None, "node-1")
    await kubelet.gone("p")
    assert (await kubelet.client.get(PODS, "default", "q"))["status"]["phase"] == "Running"


async def test_a_failed_node_sends_no_heartbeat_until_it_is_restored(kubelet: Rig) -> None:
    await kubelet.run("p", annotations=FOREVER)
    await kubelet.pod("p", "Running")
    await node_failure.fail(kubelet.kubelet.nodes, kubelet.client, "node-1", 1.0)
    node = await kubelet.client.get(NODES, None, "node-1")
    assert held(node, "Ready") == "Unknown"
    assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    await kubelet.client.delete(PODS, "default", "p")
    await kubelet.run("other", "node-2")
    await kubelet.pod("other", "Succeeded")
    assert (await kubelet.client.get(PODS, "default", "p"))["status"]["phase"] == "Running"
    await node_failure.restore(kubelet.kubelet.nodes, kubelet.client, "node-1", 2.0)
    await kubelet.gone("p")
    node = await kubelet.client.get(NODES, None, "node-1")
    assert (held(node, "Ready"), node["spec"].get("taints") or []) == ("True", [])


async def test_conditions_of_others_stay_in_a_pods_status(kubelet: Rig) -> None:
    await kubelet.run("p", annotations={"start-delay": "300ms"})
    mark = {"type": "example.io/checked", "status": "True"}
    await kubelet.client.patch_status(PODS, "default", "p", {"status": {"conditions": [mark]}}, PatchType.STRATEGIC)
    ended = await kubelet.pod("p", "Succeeded")
    assert held(ended, "example.io/checked") == "True"


async def test_a_status_write_that_is_rejected_although_the_pod_has_not_changed_is_repeated(
    kubelet: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, rejected = Client.patch_status, list[str]()

    async def rejects_the_last(
        client: Client, kind: Kind[Any], namespace: str, name: str, patch: Json, *form: Any
    ) -> Any:
        if patch["status"].get("phase") == "Succeeded" and not rejected:
            rejected.append(name)
            raise Conflict(409)
        return await write(client, kind, namespace, name, patch, *form)

    monkeypatch.setattr(Client, "patch_status", rejects_the_last)
    await kubelet.run("p", annotations={"duration": "0s"})
    await kubelet.pod("p", "Succeeded")
    assert rejected == ["p"]


async def test_a_recreated_pod_does_not_inherit_the_state_of_its_predecessor(kubelet: Rig) -> None:
    await kubelet.run("p", annotations={"duration": "0s"})
    await kubelet.pod("p", "Succeeded")
    await kubelet.client.delete(PODS, "default", "p", grace=0)
    await kubelet.run("p", annotations=FOREVER)
    await kubelet.pod("p", "Running")
