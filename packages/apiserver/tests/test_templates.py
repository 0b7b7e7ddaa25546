"""Pods of one template are parsed once, with the same result."""

from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from http_client import PODS, Client

PLAIN = {"containers": [{"name": "main", "image": "busybox"}]}
RICH = {
    "restartPolicy": "OnFailure",
    "priorityClassName": "system-node-critical",
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "nodeSelector": {"disk": "fast"},
    "volumes": [{"name": "scratch"}],
    "initContainers": [{"name": "prepare", "image": "busybox:1"}],
    "containers": [
        {
            "name": "main",
            "image": "registry/app:1.0",
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 1}},
        }
    ],
}
GATED = {**PLAIN, "schedulingGates": [{"name": "example.com/wait"}], "nodeName": None}


def pod(name: str, spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def parsed_pods(body: dict[str, Any]) -> tuple[Any, Any]:
    status = {**body["status"]}
    conditions = [{**item, "lastTransitionTime": ""} for item in status.pop("conditions", [])]
    return body["spec"], (status, conditions)


@pytest.mark.parametrize("spec", [PLAIN, RICH, GATED], ids=["plain", "rich", "gated"])
async def test_pods_of_one_template_equal_the_generic_result(client: Client, spec: Any) -> None:
    first = await client.create(PODS, pod("first", spec))
    second = await client.create(PODS, pod("second", spec))
    # YAML is never read by template.
    code, general = await client.ask("POST", PODS, pod("general", spec), "application/yaml")
    assert code == 201
    assert parsed_pods(first) == parsed_pods(second) == parsed_pods(general)
    assert (await client.get(f"{PODS}/second"))["spec"] == second["spec"]


async def test_changing_one_pod_does_not_change_others_of_its_template(client: Client) -> None:
    for name in ("a", "b"):
        await client.create(PODS, pod(name, RICH))
    before = await client.get(f"{PODS}/b")
    operations = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry/app:2.0"}]
    await client.patch(f"{PODS}/a", operations, "application/json-patch+json")
    await client.patch(f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "registry/app:3.0"}]}},
                       "application/strategic-merge-patch+json")  # fmt: skip
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    assert await client.get(f"{PODS}/b") == before
    assert (await client.create(PODS, pod("c", RICH)))["spec"] == before["spec"]


async def test_a_priority_that_is_declared_later_counts_for_a_template_seen_before(client: Client) -> None:
    before = await client.create(PODS, pod("before", PLAIN))
    default = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    await client.create("/apis/scheduling.k8s.io/v1/priorityclasses", default)
    after = await client.create(PODS, pod("after", PLAIN))
    assert (before["spec"]["priority"], after["spec"]["priority"]) == (0, 7)
    assert "priorityClassName" not in (await client.get(f"{PODS}/before"))["spec"]


async def test_an_invalid_spec_is_rejected_every_time(client: Client) -> None:
    wrong = {"containers": [{"name": "Main", "image": "busybox"}]}
    answers = [await client.ask("POST", PODS, pod("p", wrong)) for _ in range(2)]
    assert [code for code, _ in answers] == [422, 422]
    assert answers[0] == answers[1]
    code, said = await client.ask("POST", f"{PODS}?fieldValidation=Strict", pod("p", {**PLAIN, "nonsense": 1}))
    assert (code, "spec.nonsense" in said["message"]) == (400, True)


async def test_an_invalid_name_is_rejected_for_any_template(client: Client) -> None:
    await client.create(PODS, pod("right", PLAIN))
    assert (await client.ask("POST", PODS, pod("Wrong_", PLAIN)))[0] == 422
    assert (await client.ask("POST", PODS, pod("right", PLAIN)))[0] == 409


async def test_the_oldest_templates_are_evicted_from_the_cache_first(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedded_apiserver.crud.pod_templates.REMEMBERED", 3)
    for number in range(10):
        spec = {"containers": [{"name": "main", "image": f"busybox:{number}"}]}
        made = await client.create(PODS, pod(f"p{number}", spec))
        assert made["spec"]["containers"][0]["image"] == f"busybox:{number}"
    assert len(server.context.templates) == 3
