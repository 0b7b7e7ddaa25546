"""Deletion: dependents, finalizers, propagation policies and disruption budgets."""

from typing import Any

from http_client import MAPS, PODS, Client, binding, map_of, owner, pod


async def _family(client: Client, *, block: bool = False) -> dict[str, Any]:
    parent = await client.create(MAPS, map_of("parent"))
    child = await client.create(MAPS, map_of("child", ownerReferences=[owner(parent, block=block)]))
    await client.create(
        PODS, {**pod("grandchild"), "metadata": {"name": "grandchild", "ownerReferences": [owner(child)]}}
    )
    return parent  # type: ignore[no-any-return]


async def test_dependents_follow_their_owner(client: Client) -> None:
    await _family(client)
    await client.delete(f"{MAPS}/parent")
    await client.until(f"{MAPS}/child", 404)
    await client.until(f"{PODS}/grandchild", 404)


async def test_orphaned_dependents_stay_without_owner_reference(client: Client) -> None:
    await _family(client)
    await client.delete(f"{MAPS}/parent", propagationPolicy="Orphan")
    await client.until(f"{MAPS}/parent", 404)
    child = await client.get(f"{MAPS}/child")
    assert "ownerReferences" not in child["metadata"]


async def test_a_foreground_deletion_waits_for_dependents(client: Client) -> None:
    await _family(client, block=True)
    await client.patch(f"{MAPS}/child", {"metadata": {"finalizers": ["example.com/hold"]}})
    left = await client.delete(f"{MAPS}/parent", propagationPolicy="Foreground")
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    while "deletionTimestamp" not in (await client.get(f"{MAPS}/child"))["metadata"]:
        pass
    assert (await client.ask("GET", f"{MAPS}/parent"))[0] == 200
    await client.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    await client.until(f"{MAPS}/child", 404)
    await client.until(f"{MAPS}/parent", 404)


async def test_a_dependent_with_two_owners_stays_until_both_are_deleted(client: Client) -> None:
    parents = [await client.create(MAPS, map_of(name)) for name in ("one", "two")]
    await client.create(MAPS, map_of("child", ownerReferences=[owner(parent) for parent in parents]))
    async with client.watching(f"{MAPS}?fieldSelector=metadata.name%3Dchild&resourceVersion=") as watch:
        assert (await watch.next())["type"] == "ADDED"
        await client.delete(f"{MAPS}/one")
        event = await watch.next()
        assert [o["name"] for o in event["object"]["metadata"]["ownerReferences"]] == ["two"]
        await client.delete(f"{MAPS}/two")
        assert (await watch.next())["type"] == "DELETED"


async def test_pods_of_a_deleted_job_are_orphaned_by_default(client: Client) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job = await client.create(jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    reference = owner(job, "Job") | {"apiVersion": "batch/v1"}
    await client.create(PODS, {**pod("p"), "metadata": {"name": "p", "ownerReferences": [reference]}})
    await client.delete(f"{jobs}/j")
    await client.until(f"{jobs}/j", 404)
    assert "ownerReferences" not in (await client.get(f"{PODS}/p"))["metadata"]


async def test_a_namespace_waits_for_objects_with_finalizers(client: Client) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    inner = "/api/v1/namespaces/ns/configmaps"
    await client.create(inner, map_of("held", finalizers=["example.com/hold"]))
    await client.create(inner, map_of("free"))
    await client.create("/api/v1/namespaces/ns/pods", pod("p"))
    await client.ask("POST", "/api/v1/namespaces/ns/pods/p/binding", binding("p", "n1"))
    left = await client.delete("/api/v1/namespaces/ns")
    assert left["status"]["phase"] == "Terminating"
    await client.until(f"{inner}/free", 404)
    code, body = await client.ask("POST", inner, map_of("late"))
    assert (code, body["reason"]) == (403, "Forbidden")
    assert "deletionTimestamp" in (await client.get("/api/v1/namespaces/ns/pods/p"))["metadata"]
    await client.delete("/api/v1/namespaces/ns/pods/p", gracePeriodSeconds=0)
    await client.patch(f"{inner}/held", {"metadata": {"finalizers": None}})
    await client.until("/api/v1/namespaces/ns", 404)


async def test_a_collection_is_deleted_by_selector(client: Client) -> None:
    for name in "abc":
        await client.create(MAPS, map_of(name, {"x": "1"} if name != "b" else {}))
    gone = await client.delete(f"{MAPS}?labelSelector=x%3D1")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await client.get(MAPS))["items"]] == ["b"]


async def test_an_eviction_checks_the_disruption_budget(client: Client) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "x"}}
    await client.create(budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}})
    await client.create(PODS, {**pod("p"), "metadata": {"name": "p", "labels": {"app": "x"}}})
    await client.ask("POST", f"{PODS}/p/binding", binding("p", "n1"))
    await client.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    code, body = await client.ask("POST", f"{PODS}/p/eviction", eviction)
    assert (code, body["reason"]) == (429, "TooManyRequests")
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await client.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1, "currentHealthy": 2}})
    code, _ = await client.ask("POST", f"{PODS}/p/eviction", eviction)
    assert code == 201
    assert "deletionTimestamp" in (await client.get(f"{PODS}/p"))["metadata"]
    assert (await client.get(f"{budgets}/b"))["status"]["disruptionsAllowed"] == 0
