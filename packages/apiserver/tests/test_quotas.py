"""LimitRanges complete and bound new objects, ResourceQuotas bound their sums, with the words of a real server."""

from typing import Any

from http_client import MAPS, PODS, Client

LIMITS, QUOTAS = (f"/api/v1/namespaces/default/{kind}" for kind in ("limitranges", "resourcequotas"))
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def pod(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    container = {"name": "main", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def used(client: Client, name: str = "q") -> Any:
    return (await client.get(f"{QUOTAS}/{name}"))["status"]["used"]


async def test_containers_get_the_defaults_of_their_namespace(client: Client) -> None:
    limit = {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    await client.create(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    for name in ("a", "b"):
        made = await client.create(PODS, pod(name))
        resources = made["spec"]["containers"][0]["resources"]
        assert resources == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}}
    made = await client.create(PODS, pod("c", {"cpu": "50m"}))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m", "memory": "1Gi"}


async def test_what_is_outside_the_bounds_is_rejected(client: Client) -> None:
    limits = [
        {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]
    await client.create(LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    code, status = await client.ask("POST", PODS, pod("p", {"cpu": "50m"}, {"cpu": "2"}))
    text = (
        'pods "p" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, '
        "maximum cpu usage per Container is 1, but limit is 2]"
    )
    assert (code, status["message"]) == (403, text)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    code, status = await client.ask("POST", CLAIMS, {"metadata": {"name": "c"}, "spec": claim})
    text = 'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi'
    assert (code, status["message"]) == (403, text)


async def test_pods_beyond_a_quota_are_rejected_until_others_end_or_go(client: Client) -> None:
    hard = {"pods": "2", "requests.cpu": "2", "memory": "4Gi"}
    await client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert await used(client) == {"pods": "0", "requests.cpu": "0", "memory": "0"}
    code, status = await client.ask("POST", PODS, pod("p", {"cpu": "1"}))
    assert (code, status["message"]) == (403, 'pods "p" is forbidden: failed quota: q: must specify memory')
    for name in ("a", "b"):
        await client.create(PODS, pod(name, {"cpu": "750m", "memory": "1Gi"}))
    assert await used(client) == {"pods": "2", "requests.cpu": "1500m", "memory": "2Gi"}
    third = pod("c", {"cpu": "750m", "memory": "1Gi"})
    code, status = await client.ask("POST", PODS, third)
    text = (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=750m, '
        "used: pods=2,requests.cpu=1500m, limited: pods=2,requests.cpu=2"
    )
    assert (code, status["message"]) == (403, text)
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    assert await used(client) == {"pods": "1", "requests.cpu": "750m", "memory": "1Gi"}
    await client.create(PODS, third)
    await client.ask("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    assert await used(client) == {"pods": "1", "requests.cpu": "750m", "memory": "1Gi"}


async def test_objects_are_counted_by_kind_and_a_changed_quota_is_counted_anew(client: Client) -> None:
    await client.create(MAPS, {"metadata": {"name": "first"}})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "2"}}}
    await client.create(QUOTAS, quota)
    await client.create(MAPS, {"metadata": {"name": "second"}})
    code, status = await client.ask("POST", MAPS, {"metadata": {"name": "third"}})
    text = 'configmaps "third" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2'
    assert (code, status["message"]) == (403, text)
    await client.patch(f"{QUOTAS}/q", {"spec": {"hard": {"count/configmaps": "3", "secrets": "1"}}})
    assert await used(client) == {"count/configmaps": "2", "secrets": "0"}
    await client.create(MAPS, {"metadata": {"name": "third"}})
