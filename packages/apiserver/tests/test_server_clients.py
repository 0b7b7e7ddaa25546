"""The clients that people use: kubectl and kopf, unchanged, against the embedded API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import kopf
import pytest

from contract.objects import DEFINITIONS, WIDGET_DEFINITION, widget
from embedded_apiserver.server import ApiServer
from http_client import PODS, Client, binding, pod
from server_certificate import self_signed
from tests.controlplane.fixtures import kubectl_program

__all__ = ["kubectl_program"]

WIDGETS = "/apis/contract.example.io/v1/namespaces/default/widgets"
Kubectl = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
async def kubectl(tmp_path: Path, kubectl_program: Path) -> AsyncIterator[Kubectl]:
    """`kubectl` on a TLS server: exit status and all that it printed."""
    server = await ApiServer.start(tls=self_signed())
    config = tmp_path / "kubeconfig"
    config.write_text(server.kubeconfig())

    async def run(*arguments: str, given: Any = None) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            kubectl_program,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        text = json.dumps(given) if given is not None else ""
        output, _ = await process.communicate(text.encode())
        return process.returncode or 0, output.decode()

    yield run
    await server.stop()


async def _ok(kubectl: Kubectl, *arguments: str, given: Any = None) -> str:
    code, output = await kubectl(*arguments, given=given)
    assert code == 0, output
    return output


def _named(pod: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", **pod}


async def test_kubectl_applies_shows_changes_and_deletes(kubectl: Kubectl) -> None:
    await _ok(kubectl, "apply", "-f", "-", given=WIDGET_DEFINITION)
    assert "condition met" in await _ok(kubectl, "wait", "crd", "--all", "--for=condition=Established")
    assert "created" in await _ok(kubectl, "apply", "-f", "-", given=widget())
    assert "unchanged" in await _ok(kubectl, "apply", "-f", "-", given=widget())
    assert "configured" in await _ok(kubectl, "apply", "-f", "-", given=widget(replicas=2))
    assert (await _ok(kubectl, "get", "wd")).split() == ["NAME", "SIZE", "REPLICAS", "w", "small", "2"]
    assert "serverside-applied" in await _ok(kubectl, "apply", "--server-side", "-f", "-", given=widget(replicas=2))
    assert "patched" in await _ok(kubectl, "patch", "widget", "w", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    assert "scaled" in await _ok(kubectl, "scale", "widget/w", "--replicas=4")
    assert "labeled" in await _ok(kubectl, "label", "widget", "w", "a=b")
    assert await _ok(kubectl, "get", "widget", "-l", "a=b", "-o", "jsonpath={.items[0].spec.replicas}") == "4"
    assert "Replicas:  4" in await _ok(kubectl, "describe", "widget", "w")
    assert "replicas\t<integer>" in await _ok(kubectl, "explain", "widget.spec")
    assert "condition met" in await _ok(
        kubectl, "wait", "widget/w", "--for=jsonpath={.spec.size}=small", "--timeout=5s"
    )
    assert "deleted" in await _ok(kubectl, "delete", "widget", "w")
    assert (await kubectl("get", "widget", "w"))[
        1
    ] == 'Error from server (NotFound): widgets.contract.example.io "w" not found\n'


async def test_kubectl_prints_the_rejections_of_the_server(kubectl: Kubectl) -> None:
    await _ok(kubectl, "apply", "-f", "-", given=WIDGET_DEFINITION)
    code, output = await kubectl("apply", "-f", "-", given=widget(colour="red"))
    assert code == 1
    assert 'strict decoding error: unknown field "spec.colour"' in output
    code, output = await kubectl("apply", "-f", "-", given=widget(least=5))
    assert code == 1
    assert "least must not exceed replicas" in output


async def test_kubectl_handles_pods_and_nodes(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
    await _ok(kubectl, "apply", "-f", "-", given=node)
    await _ok(kubectl, "run", "p", "--image=busybox", "--restart=Never")
    assert "Pending" in await _ok(kubectl, "get", "pods", "-o", "wide")
    assert "QoS Class:        BestEffort" in await _ok(kubectl, "describe", "pod", "p")
    raw = ("create", "--raw", "/api/v1/namespaces/default/pods/p/binding", "-f", "-")
    await _ok(kubectl, *raw, given={"apiVersion": "v1", "kind": "Binding", **binding("p", "n1")})
    assert "nothing runs container p" in await _ok(kubectl, "logs", "p")
    assert "cordoned" in await _ok(kubectl, "cordon", "n1")
    assert "SchedulingDisabled" in await _ok(kubectl, "get", "nodes")
    assert "1" in await _ok(kubectl, "describe", "node", "n1")
    code, output = await kubectl("drain", "n1", "--force", "--timeout=1s")
    assert code == 1
    assert "evicting pod default/p" in output
    assert "Terminating" in await _ok(kubectl, "get", "pod", "p")
    await _ok(kubectl, "delete", "pod", "p", "--grace-period=0", "--force")
    assert "uncordoned" in await _ok(kubectl, "uncordon", "n1")
    await _ok(kubectl, "create", "namespace", "extra")
    await _ok(kubectl, "create", "configmap", "m", "--from-literal=a=b", "-n", "extra")
    assert "deleted" in await _ok(kubectl, "delete", "namespace", "extra")
    assert await _ok(kubectl, "auth", "can-i", "create", "pods") == "yes\n"


async def test_kubectl_applies_a_list_and_its_own_output(kubectl: Kubectl) -> None:
    await _ok(kubectl, "apply", "-f", "-", given=WIDGET_DEFINITION)
    await _ok(kubectl, "wait", "crd", "--all", "--for=condition=Established")
    items = [
        _named(pod("p")),
        widget(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
    ]
    objects = {"apiVersion": "v1", "kind": "List", "items": items}
    assert (await _ok(kubectl, "apply", "-f", "-", given=objects)).count("created") == 3
    listed = json.loads(await _ok(kubectl, "get", "pods,widgets,configmaps", "-o", "json"))
    assert [item["kind"] for item in listed["items"]] == ["Pod", "Widget", "ConfigMap"]
    await _ok(kubectl, "delete", "pods,widgets,configmaps", "--all", "--now")
    assert (await _ok(kubectl, "create", "-f", "-", given=listed)).count("created") == 3


async def test_kubectl_names_the_unknown_field_of_an_item_of_a_list(kubectl: Kubectl) -> None:
    wrong = _named(pod("p"))
    wrong["spec"]["containerz"] = []
    code, output = await kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [wrong]})
    assert code == 1
    assert 'unknown field "spec.containerz"' in output


async def test_kubectl_says_that_an_unknown_kind_is_unknown(kubectl: Kubectl) -> None:
    job = {"apiVersion": "batch.example.org/v1", "kind": "Job", "metadata": {"name": "j"}}
    code, output = await kubectl("apply", "-f", "-", given=job)
    assert code == 1
    assert 'no matches for kind "Job" in version "batch.example.org/v1"' in output


async def test_kubectl_asks_who_the_user_is(kubectl: Kubectl) -> None:
    assert "kubernetes-admin" in await _ok(kubectl, "auth", "whoami")


async def test_the_root_lists_the_paths_and_the_version_has_a_trailing_slash_too(kubectl: Kubectl) -> None:
    paths = json.loads(await _ok(kubectl, "get", "--raw", "/"))["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/openapi/v2", "/version"} <= set(paths)
    assert json.loads(await _ok(kubectl, "get", "--raw", "/version/"))["major"] == "1"


async def test_kopf_serves_custom_resources(server: ApiServer, client: Client) -> None:
    """Creation, update and deletion handlers with kopf's own annotations and finalizers."""
    await client.create(DEFINITIONS, WIDGET_DEFINITION)
    registry = kopf.OperatorRegistry()
    reported: list[str] = []
    deleted = asyncio.Event()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server.url)

    @kopf.on.create("contract.example.io", "v1", "widgets", registry=registry)
    async def created(name: str, patch: kopf.Patch, **_: Any) -> None:
        reported.append(f"created {name}")
        patch.status["replicas"] = 1

    @kopf.on.update("contract.example.io", "v1", "widgets", registry=registry)
    async def updated(name: str, **_: Any) -> None:
        reported.append(f"updated {name}")

    @kopf.on.delete("contract.example.io", "v1", "widgets", registry=registry)
    async def gone(name: str, **_: Any) -> None:
        reported.append(f"deleted {name}")
        deleted.set()

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.idle_timeout = settings.queueing.exit_timeout = 0.1
    stop, ready = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry, settings=settings, clusterwide=True, standalone=True, stop_flag=stop, ready_flag=ready
        )
    )
    try:
        await asyncio.wait_for(ready.wait(), 60)
        async with client.watching(f"{WIDGETS}?resourceVersion=1") as watch:
            await client.create(WIDGETS, widget())
            while (await watch.next(10))["object"].get("status", {}).get("replicas") != 1:
                pass
            await client.patch(f"{WIDGETS}/w", {"spec": {"replicas": 2}})
            while "updated w" not in reported:
                await watch.next(10)
            await client.delete(f"{WIDGETS}/w")
            await asyncio.wait_for(deleted.wait(), 60)
            await client.until(f"{WIDGETS}/w", 404, 10)
    finally:
        stop.set()
        await asyncio.wait_for(operator, 60)
    assert reported == ["created w", "updated w", "deleted w"]


async def test_the_watch_of_a_disconnected_client_ends(server: ApiServer, client: Client) -> None:
    bucket = server.context.store.bucket("pods")
    async with client.watching(f"{PODS}?resourceVersion=1"):
        assert len(bucket.watchers) == 1
    async with asyncio.timeout(60):
        while bucket.watchers:
            await client.create(PODS, pod(f"p{len(bucket.history)}"))
