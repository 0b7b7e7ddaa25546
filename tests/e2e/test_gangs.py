"""Kubernetes' own gang API, from end to end: pods that name a PodGroup of it in their spec start together or wait together."""

import pytest

from tests.e2e.test_bare_pods import phases, pod
from tests.e2e.world import POD_GROUPS, PODS, World, condition
from volcanopy.kube.client.kinds import Json, Kind

GANGS: Kind[Json] = Kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", True, dict)


def gang(name: str, size: int, cpu: str) -> list[Json]:
    """A PodGroup of Kubernetes, and as many pods as start together."""
    policy = {"gang": {"minCount": size}}
    group = {
        "apiVersion": GANGS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy},
    }
    pods = [pod(f"{name}-{number}", cpu) for number in range(size)]
    for member in pods:
        member["spec"]["schedulingGroup"] = {"podGroupName": name}
    return [*pods, group]


def conditions(gangs: list[Json]) -> dict[str, tuple[str, str]]:
    """Status and reason of the condition of each PodGroup that has it."""
    given = {each["metadata"]["name"]: condition(each, "PodGroupScheduled") for each in gangs}
    return {name: (entry["status"], entry["reason"]) for name, entry in given.items() if entry}


@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_a_gang_of_kubernetes_starts_as_a_whole_and_its_pod_group_gets_the_condition(cluster: World) -> None:
    """There is room for three pods of 5 cpu on three nodes of 8."""
    await cluster.create(*gang("fits", 2, "5"))
    await cluster.all_of(PODS, lambda pods: phases(pods) == ["Running"] * 2)
    await cluster.all_of(GANGS, lambda gangs: conditions(gangs) == {"fits": ("True", "Scheduled")})
    await cluster.create(*gang("large", 2, "5"))
    gangs = await cluster.all_of(
        GANGS,
        lambda gangs: conditions(gangs) == {"fits": ("True", "Scheduled"), "large": ("False", "Unschedulable")},
    )
    [own] = [
        group["status"]["conditions"][0]
        for group in (await cluster.client.list(POD_GROUPS, cluster.namespace)).items
        if group["metadata"]["ownerReferences"][0]["name"] == "large"
    ]
    [waiting] = [each for each in gangs if each["metadata"]["name"] == "large"]
    assert condition(waiting, "PodGroupScheduled")["message"] == own["message"]
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    bound = {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}
    assert bound == {"fits-0", "fits-1"}
