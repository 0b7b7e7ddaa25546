"""The operators of `gang_operators` as programs, unchanged, against volcanopy: `make operators OPERATORS=folder`.

The folder has their source trees; in each, its own build has put the program.
"""

import asyncio
import base64
import contextlib
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import jsonpatch
import pytest
import yaml

from tests.clients.gang_operators import GANG, MOUNT, OPERATORS, QUEUE, Operator, Site
from tests.clients.servers import SECONDS, Server, StartServer, kind_of, on_both_servers, reason_to_wait
from tests.controlplane.processes import free_port
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import VOLCANO
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, SECRETS, bound
from volcanopy.local.cluster import Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.simulated import nodes
from volcanopy.services.controllers.user_kinds import wait_for_kinds
from volcanopy.services.process.certificates import issue, make_authority

TREES = Path(os.environ.get("OPERATORS") or "/nonexistent")
GROUPS = bound(POD_GROUPS, VOLCANO)
NODE = {"cpu": "4"}
QUEUE_OF_GANGS: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": QUEUE},
    "spec": {"weight": 1},
}


async def kubeconfig_of_account(server: Server, namespace: str) -> str:
    """A kubeconfig for the service account of the operator."""
    config = yaml.safe_load(server.kubeconfig)
    config["users"][0]["user"] = {"token": await server.token_of_account(namespace, "operator")}
    return yaml.safe_dump(config)


def documents(path: Path) -> list[Json]:
    """The objects in a file; the definitions of operators are large."""
    return [each for each in yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each]


def definitions(operator: Operator) -> list[Json]:
    """The definitions of the kinds of an operator."""
    paths = [path for pattern in operator.definitions for path in sorted(TREES.glob(pattern))]
    return [body for path in paths for body in documents(path)]


def webhooks(operator: Operator) -> list[Json]:
    """The webhooks of an operator as its installation has them."""
    folder = TREES / operator.webhooks
    configurations = documents(folder / "manifests.yaml")
    for configuration in configurations:
        kind = configuration["kind"].removesuffix("WebhookConfiguration").lower()
        [patch] = [each for each in folder.rglob("*patch.yaml") if each.name in {"patch.yaml", f"{kind}-patch.yaml"}]
        jsonpatch.apply_patch(configuration, yaml.safe_load(patch.read_text()), in_place=True)
    return configurations


def give_certificates(site: Site, configurations: list[Json]) -> None:
    """Write certificates for the webhooks, which are reached by their URLs."""
    authority = make_authority(datetime.now(UTC))
    served = issue(authority, ["127.0.0.1"], datetime.now(UTC))
    (site.folder / "tls.crt").write_bytes(served.certificate)
    (site.folder / "tls.key").write_bytes(served.key)
    bundle = base64.b64encode(authority.certificate).decode()
    for hook in (hook for configuration in configurations for hook in configuration["webhooks"]):
        url = f"https://127.0.0.1:{site.port}{hook['clientConfig']['service']['path']}"
        hook["clientConfig"] = {"url": url, "caBundle": bundle}


def reach_by_service(operator: Operator, server: Server, site: Site, configurations: list[Json]) -> list[Json]:
    """The Service of the webhooks, and the empty Secret into which the operator writes its certificates."""
    secret = {"name": operator.secret, "namespace": operator.namespace}
    objects: list[Json] = [{"apiVersion": "v1", "kind": "Secret", "metadata": secret}]
    services = [hook["clientConfig"]["service"] for each in configurations for hook in each["webhooks"]]
    for service in services:
        service |= {"namespace": operator.namespace, "port": site.port}
    for name in sorted({service["name"] for service in services}):
        metadata = {"name": name, "namespace": operator.namespace}
        spec = {"type": "ExternalName", "externalName": "localhost"}
        objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        server.addresses[f"{operator.namespace}/{name}"] = f"127.0.0.1:{site.port}"
    return objects


async def mount(client: Client, operator: Operator, folder: Path) -> None:
    """Keep the files of a folder as the Secret of the operator has them, as a kubelet does."""
    followed = Reflector(client, SECRETS, operator.namespace, field_selector=f"metadata.name={operator.secret}")
    async with contextlib.aclosing(followed.batches()) as batches:
        async for _ in batches:
            for secret in followed.objects.values():
                for name, content in (secret.get("data") or {}).items():
                    (folder / name).write_bytes(base64.b64decode(content))


def command(operator: Operator, site: Site, mounted: Path) -> list[str]:
    """The program with its arguments; one with a Secret sees the folder where the Secret is mounted."""
    program = str((TREES / operator.program).resolve())
    if not operator.secret:
        return [program, *operator.arguments(site)]
    visible = (("--ro-bind", program, program), ("--bind", site.folder, site.folder), ("--bind", mounted, MOUNT))
    view = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/tmp"]
    return [*view, *(str(part) for binding in visible for part in binding), program, *operator.arguments(site)]


@asynccontextmanager
async def running(operator: Operator, server: Server, folder: Path) -> AsyncIterator[None]:
    """The operator at work; a program that ends early, or does not begin, fails the test with its log."""
    site = Site(folder, free_port(), operator.namespace)
    creator = Creator(server.client, operator.namespace)
    served = definitions(operator)
    await creator.create(served)
    await wait_for_kinds(server.client, [kind_of(definition) for definition in served])
    config = folder / "kubeconfig"
    config.write_text(await kubeconfig_of_account(server, operator.namespace))
    hooks = webhooks(operator) if operator.webhooks else []
    mounted = folder / "mounted"
    mounted.mkdir()
    if operator.secret:  # the operator adds its authority to its webhooks before it serves them
        await creator.create([*reach_by_service(operator, server, site, hooks), *hooks])
    else:
        give_certificates(site, hooks)
    process = await asyncio.create_subprocess_exec(
        *command(operator, site, mounted),
        env=os.environ | {"KUBECONFIG": str(config)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    log, missing, ready = folder / "operator.log", set(operator.ready), asyncio.Event()

    async def read() -> None:
        assert process.stdout is not None
        with log.open("wb") as output:
            async for line in process.stdout:
                output.write(line)
                output.flush()
                missing.difference_update([each for each in missing if re.search(each, line.decode())])
                if not missing:
                    ready.set()

    reading, waiting = asyncio.create_task(read()), asyncio.create_task(ready.wait())
    mounting = asyncio.create_task(mount(server.client, operator, mounted)) if operator.secret else None
    try:
        await asyncio.wait((reading, waiting), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), f"{operator.name} did not log {missing}:\n{log.read_text()}"
        if not operator.secret:
            await creator.create(hooks)
        yield
        assert process.returncode is None, log.read_text()
    finally:
        waiting.cancel()
        if mounting is not None:
            mounting.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


@pytest.mark.slow("starts an operator, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
async def test_the_pods_of_an_operator_start_together_or_not_at_all(
    operator: Operator, start: StartServer, tmp_path: Path
) -> None:
    """Two pods of the three would fit on the two nodes; with the third node all start, and the operator reports it."""
    if not (TREES / operator.program).is_file():
        pytest.skip(f"needs OPERATORS, a folder with {operator.program}: `make operators`")
    if operator.secret:
        runtime_named("bubblewrap")
    objects = [*nodes.manifests(2, NODE), QUEUE_OF_GANGS]
    async with start(objects, Parts(api="both")) as cluster, running(operator, cluster, tmp_path):
        creator = Creator(cluster.client)
        [workload] = await creator.create([operator.workload("3")])
        kind = await creator.kind(workload)
        [group] = await cluster.until(GROUPS, lambda groups: "cpu" in reason_to_wait(groups))
        assert group["spec"]["minMember"] == GANG
        assert group["spec"]["queue"] == QUEUE
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")] == []

        await creator.create([nodes.manifest("node-3", 2, NODE)])
        [workload] = await cluster.until(kind, lambda objects: any(operator.finished(each) for each in objects))
        pods = (await cluster.client.list(PODS, "default")).items
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {
            group["metadata"]["name"]
        }
