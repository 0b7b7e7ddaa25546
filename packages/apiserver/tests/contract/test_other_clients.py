"""Other client libraries of Kubernetes against both servers: the same objects, events and errors."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from embedded_apiserver.server import ApiServer
from server_certificate import self_signed

OFFICIAL = """
from kubernetes import client, config, watch
config.load_kube_config()
core = client.CoreV1Api()
version = client.VersionApi().get_code().major
core.create_namespaced_config_map(NAMESPACE, MAP)
core.patch_namespaced_config_map(NAME, NAMESPACE, {"data": {"b": "2"}})
listed = core.list_namespaced_config_map(NAMESPACE, label_selector="client=" + NAME)
events = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, label_selector="client=" + NAME, timeout_seconds=20)
seen = next(iter(events))["type"]
data = listed.items[0].data
groups = [group.name for group in client.ApisApi().get_api_versions().groups]
core.delete_namespaced_config_map(NAME, NAMESPACE)
try:
    core.read_namespaced_config_map(NAME, NAMESPACE)
except client.ApiException as error:
    missing = error.status
"""
KR8S = """
import kr8s
from kr8s.objects import ConfigMap
api = kr8s.api()
version = api.version()["major"]
made = ConfigMap(MAP | {"metadata": MAP["metadata"] | {"namespace": NAMESPACE}})
made.create()
made.patch({"data": {"b": "2"}})
(found,) = kr8s.get("configmaps", namespace=NAMESPACE, label_selector="client=" + NAME)
data = dict(found.data)
seen, _ = next(iter(api.watch("configmaps", namespace=NAMESPACE, label_selector="client=" + NAME)))
groups = sorted({resource["version"].rpartition("/")[0] for resource in api.api_resources()})
made.delete()
try:
    made.refresh()
except kr8s.NotFoundError:
    missing = 404
"""
PYKUBE = """
import pykube
api = pykube.HTTPClient(pykube.KubeConfig.from_env())
version = str(api.version[0])
made = pykube.ConfigMap(api, MAP | {"metadata": MAP["metadata"] | {"namespace": NAMESPACE}})
made.create()
made.patch({"data": {"b": "2"}})
query = pykube.ConfigMap.objects(api).filter(namespace=NAMESPACE, selector={"client": NAME})
(found,) = query
data = found.obj["data"]
seen = next(iter(query.watch())).type
groups = [resource["groupVersion"].rpartition("/")[0] for resource in [api.resource_list("apps/v1")]]
made.delete()
missing = 404 if pykube.ConfigMap.objects(api, namespace=NAMESPACE).get_or_none(name=NAME) is None else 0
"""
LIGHTKUBE = """
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap
import lightkube.generic_resource
client = Client(namespace=NAMESPACE)
version = "1"
client.create(ConfigMap.from_dict(MAP))
client.patch(ConfigMap, NAME, {"data": {"b": "2"}})
(found,) = client.list(ConfigMap, labels={"client": NAME})
data = found.data
seen, _ = next(iter(client.watch(ConfigMap, labels={"client": NAME})))
lightkube.generic_resource.load_in_cluster_generic_resources(client)
groups = ["apps"]
client.delete(ConfigMap, NAME)
try:
    client.get(ConfigMap, NAME)
except ApiError as error:
    missing = error.status.code
"""
SCRIPTS = {
    "kubernetes": ("kubernetes", OFFICIAL),
    "kr8s": ("kr8s", KR8S),
    "pykube-ng": ("pykube", PYKUBE),
    "lightkube": ("lightkube", LIGHTKUBE),
}


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    """The kubeconfig of each server."""
    if request.param == "real":
        yield request.getfixturevalue("real_control_plane").kubeconfig
        return
    server = await ApiServer.start(tls=self_signed())
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    yield path
    await server.stop()


async def result_of(script: str, name: str, kubeconfig: Path) -> dict[str, object]:
    """What a client has found, in an interpreter of its own: libraries of clients change the one that imports them."""
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"client": name}},
        "data": {"a": "1"},
    }
    setting = f"NAMESPACE, NAME, MAP = 'default', {name!r}, {config_map!r}\n"
    shown = "\nimport json; print(json.dumps([version, data, seen, 'apps' in groups, missing]))"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "ignore", "-c", setting + script + shown),
        env={"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(100):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    names = ("version", "data", "event", "apps", "missing")
    return dict(zip(names, json.loads(output), strict=True))


async def test_clients_create_read_watch_patch_and_delete(kubeconfig: Path) -> None:
    """All clients at once, so that the test lasts as long as the slowest."""
    installed = {name: script for name, (module, script) in SCRIPTS.items() if find_spec(module) is not None}
    results = await asyncio.gather(
        *(result_of(script, f"map-of-{name}", kubeconfig) for name, script in installed.items())
    )
    expected = {"version": "1", "data": {"a": "1", "b": "2"}, "event": "ADDED", "apps": True, "missing": 404}
    assert dict(zip(installed, results, strict=True)) == dict.fromkeys(installed, expected)
    missing = sorted(SCRIPTS.keys() - installed.keys())
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
