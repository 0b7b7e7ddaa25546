"""Objects of the embedded API server on write. (Behaviour equal to the real server is in the folder contract.)"""

from collections.abc import AsyncIterator
from typing import Any

from embedded_apiserver.server import ApiServer
from http_client import APPLY, MAPS, MERGE, PODS, Client, binding, map_of, pod

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.io/v1/namespaces/default/things"


def definition(*versions: str, **schema: Any) -> dict[str, Any]:
    """A definition of the kind Thing; the first version is the stored one."""
    spec = schema or {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
    served = [
        {
            "name": version,
            "served": True,
            "storage": version == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            "selectableFields": [{"jsonPath": ".spec.size"}],
        }
        for version in versions
    ]
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.io", "scope": "Namespaced", "names": names, "versions": served}
    return {"metadata": {"name": "things.example.io"}, "spec": spec}


def thing(name: str, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.io/{version}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_a_new_cluster_has_the_standard_objects(client: Client) -> None:
    names = [item["metadata"]["name"] for item in (await client.get("/api/v1/namespaces"))["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert (await client.get("/api/v1/namespaces/default/serviceaccounts/default"))["metadata"]["uid"]
    assert await client.get("/readyz") == "ok"
    assert (await client.get("/version"))["gitVersion"].endswith("+embedded")


async def test_versions_of_a_kind_are_one_object(client: Client) -> None:
    await client.create(DEFINITIONS, definition("v1", "v2"))
    await client.create(THINGS, thing("a", size=3))
    other = await client.get("/apis/example.io/v2/namespaces/default/things/a")
    assert other["apiVersion"] == "example.io/v2"
    assert other["spec"] == {"size": 3}
    v2 = "/apis/example.io/v2/namespaces/default/things"
    async with client.watching(f"{v2}?resourceVersion={other['metadata']['resourceVersion']}") as watch:
        await client.patch(f"{THINGS}/a", {"spec": {"size": 4}})
        assert (await watch.next())["object"]["apiVersion"] == "example.io/v2"


async def test_objects_move_to_another_storage_version_as_they_are_written(client: Client) -> None:
    made = await client.create(DEFINITIONS, definition("v1", "v2"))
    await client.create(THINGS, thing("a", size=3))
    path = f"{DEFINITIONS}/things.example.io"
    versions = made["spec"]["versions"]
    async with client.watching(f"{THINGS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        assert (await watch.next())["object"]["apiVersion"] == "example.io/v1"
        await client.patch(
            path, {"spec": {"versions": [{**each, "storage": each["name"] == "v2"} for each in versions]}}
        )
        v2 = "/apis/example.io/v2/namespaces/default/things"
        assert (await client.get(f"{v2}/a"))["apiVersion"] == (await client.get(v2))["apiVersion"].replace("List", "")
        before = await client.get(f"{THINGS}/a")
        assert before["apiVersion"] == "example.io/v1"
        after = await client.patch(f"{THINGS}/a", {})
        assert after["apiVersion"] == "example.io/v1"
        assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert (await client.patch(f"{THINGS}/a", {})) == after
        assert (await watch.next())["object"] == after
    assert (await client.get(path))["status"]["storedVersions"] == ["v1", "v2"]


async def test_a_version_that_may_be_stored_stays_in_the_definition(client: Client) -> None:
    made = await client.create(DEFINITIONS, definition("v1", "v2"))
    path = f"{DEFINITIONS}/things.example.io"
    versions = [{**each, "storage": each["name"] == "v2"} for each in made["spec"]["versions"]]
    await client.patch(path, {"spec": {"versions": versions}})
    status, body = await client.ask("PATCH", path, {"spec": {"versions": versions[1:]}}, MERGE)
    assert status == 422
    assert 'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions' in body["message"]
    status, body = await client.ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v1"]}}, MERGE)
    assert status == 422
    assert "must have the storage version v2" in body["message"]
    await client.patch(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    await client.patch(path, {"spec": {"versions": versions[1:]}})


async def test_selectable_fields_can_be_used_in_field_selectors(client: Client) -> None:
    await client.create(DEFINITIONS, definition("v1"))
    await client.create(THINGS, thing("a", size=3))
    await client.create(THINGS, thing("b"))
    result = await client.get(f"{THINGS}?fieldSelector=spec.size%3D1")
    assert [item["metadata"]["name"] for item in result["items"]] == ["b"]


async def test_a_definition_is_deleted_after_its_objects(client: Client) -> None:
    await client.create(DEFINITIONS, definition("v1"))
    await client.create(THINGS, {**thing("a"), "metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    await client.delete(f"{DEFINITIONS}/things.example.io")
    body = await client.get(f"{THINGS}/a")
    assert "deletionTimestamp" in body["metadata"]
    await client.patch(f"{THINGS}/a", {"metadata": {"finalizers": None}})
    await client.until(f"{DEFINITIONS}/things.example.io", 404)
    await client.until(THINGS, 404)


async def test_a_definition_with_an_invalid_rule_is_rejected(client: Client) -> None:
    broken = definition("v1", type="object", **{"x-kubernetes-validations": [{"rule": "self.size >"}]})
    code, body = await client.ask("POST", DEFINITIONS, broken)
    assert (code, body["reason"]) == (422, "Invalid")
    assert "spec.versions[0].schema.openAPIV3Schema" in body["message"]


async def test_a_bound_pod_has_the_annotations_of_its_binding(client: Client) -> None:
    await client.create(PODS, pod("p"))
    body = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}}
    code, _ = await client.ask("POST", f"{PODS}/p/binding", body)
    assert code == 201
    bound = await client.get(f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    code, again = await client.ask("POST", f"{PODS}/p/binding", binding("p", "n2"))
    assert (code, again["reason"]) == (409, "Conflict")


async def test_priority_classes_give_pods_their_number(client: Client) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(classes, {"metadata": {"name": "hi"}, "value": 7, "preemptionPolicy": "Never"})
    made = await client.create(PODS, pod("p", priorityClassName="hi"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (7, "Never")
    await client.create(classes, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    assert (await client.create(PODS, pod("q")))["spec"]["priorityClassName"] == "usual"
    code, body = await client.ask("POST", PODS, pod("r", priorityClassName="nobody"))
    assert (code, body["message"]) == (403, 'pods "r" is forbidden: no PriorityClass with name nobody was found')


async def test_a_pod_needs_its_service_account(client: Client) -> None:
    code, body = await client.ask("POST", PODS, pod("p", serviceAccountName="robot"))
    message = 'error looking up service account default/robot: serviceaccount "robot" not found'
    assert (code, body["message"]) == (403, f'pods "p" is forbidden: {message}')
    await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    assert (await client.create(PODS, pod("p", serviceAccountName="robot")))["spec"]["serviceAccountName"] == "robot"
    assert (await client.create(PODS, pod("q")))["spec"]["serviceAccountName"] == "default"


async def test_an_unchanged_write_is_no_change(client: Client) -> None:
    made = await client.create(MAPS, map_of("m"))
    same = await client.patch(f"{MAPS}/m", {"data": {"k": "v"}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"k": "v"}}
    first = await client.patch(f"{MAPS}/n?fieldManager=a", applied, APPLY)
    second = await client.patch(f"{MAPS}/n?fieldManager=a", applied, APPLY)
    assert second["metadata"] == first["metadata"]


async def test_only_named_field_managers_are_tracked(client: Client) -> None:
    assert "managedFields" not in (await client.create(MAPS, map_of("m")))["metadata"]
    named = await client.create(f"{MAPS}?fieldManager=ann", map_of("n"))
    assert [entry["manager"] for entry in named["metadata"]["managedFields"]] == ["ann"]


async def test_yaml_bodies_are_accepted(client: Client) -> None:
    text = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: y}\ndata: {k: v}\n"
    code, body = await client.ask("POST", MAPS, text, "application/yaml")
    assert (code, body["data"]) == (201, {"k": "v"})
    code, _ = await client.ask("POST", MAPS, text, "text/plain")
    assert code == 415


async def test_core_and_events_api_events_are_the_same_objects(client: Client) -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "it waits",
        "reason": "Waiting",
        "type": "Normal",
        "reportingController": "volcanopy",
    }
    await client.create(new, event)
    old = await client.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")
    assert old["items"][0]["message"] == "it waits"
    assert (await client.get(f"{new}/e"))["regarding"]["name"] == "p"


async def test_logs_come_from_the_registered_source() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    server = await ApiServer.start(
        log_source=lambda _pod, _container, query: pieces() if "follow" in query else b"all\n"
    )
    client = Client(server.url)
    try:
        await client.create(PODS, pod("p"))
        assert await client.get(f"{PODS}/p/log") == ""
        await client.ask("POST", f"{PODS}/p/binding", binding("p", "n1"))
        assert await client.get(f"{PODS}/p/log") == "all\n"
        assert await client.get(f"{PODS}/p/log?follow=true") == "one\ntwo\n"
        code, body = await client.ask("GET", f"{PODS}/p/log?container=x")
        assert (code, body["message"]) == (400, "container x is not valid for pod p")
    finally:
        await client.close()
        await server.stop()


async def test_a_scalable_workload_is_scaled(client: Client) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"a": "b"}}
    await client.create(deployments, {"metadata": {"name": "d"}, "spec": {"template": template, "selector": selector}})
    scaled = await client.patch(f"{deployments}/d/scale", {"spec": {"replicas": 4}}, MERGE)
    assert (scaled["kind"], scaled["spec"], scaled["status"]) == (
        "Scale",
        {"replicas": 4},
        {"replicas": 0, "selector": "a=b"},
    )
    after = await client.get(f"{deployments}/d")
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (4, 2)


async def test_discovery_is_served(client: Client) -> None:
    await client.create(DEFINITIONS, definition("v1", "v1beta1"))
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    _, groups = await client.ask("GET", "/apis", Accept=accept)
    assert groups["kind"] == "APIGroupList"
    group = next(item for item in groups["groups"] if item["name"] == "example.io")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    resources = await client.get("/apis/example.io/v1")
    assert [resource["name"] for resource in resources["resources"]] == ["things"]
    core = await client.get("/api/v1")
    assert {"pods", "pods/binding", "pods/status", "pods/log", "pods/eviction"} <= {
        r["name"] for r in core["resources"]
    }
    index = await client.get("/openapi/v3")
    document = await client.get(index["paths"]["apis/example.io/v1"]["serverRelativeURL"])
    assert "/apis/example.io/v1/namespaces/{namespace}/things/{name}" in document["paths"]


async def test_nulls_of_built_in_types_are_not_stored(client: Client) -> None:
    """Go's decoder reads a null as no field, and as the zero value of an element of a list or map."""
    metadata = {"name": "data", "labels": None, "annotations": {"a": None}}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi", "other": None}},
        "selector": {"matchLabels": None, "matchExpressions": [{"key": "a", "operator": "Exists", "values": None}]},
    }
    made = await client.create(
        "/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": metadata, "spec": spec}
    )
    assert made["metadata"]["annotations"] == {"a": ""}
    assert "labels" not in made["metadata"]
    assert made["spec"]["selector"] == {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    assert made["spec"]["resources"]["requests"] == {"storage": "1Gi", "other": "0"}
    await client.create(DEFINITIONS, definition("v1"))
    own = await client.create(THINGS, thing("a") | {"metadata": {"name": "a", "annotations": {"a": None}}})
    assert own["metadata"]["annotations"] == {"a": ""}


async def test_a_priority_class_without_a_name_is_invalid(client: Client) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for metadata in ({}, {"name": None}):
        code, body = await client.ask("POST", path, {"metadata": metadata, "value": 1})
        assert (code, body["reason"]) == (422, "Invalid")
        assert "metadata.name: Required value: name or generateName is required" in body["message"]
