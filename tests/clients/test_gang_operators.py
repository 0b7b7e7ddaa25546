"""The operators of `gang_operators` as programs, unchanged, against volcanopy: `make operators OPERATORS=folder`.

The folder has their source trees; in each, its own build has put the program.
"""

import asyncio
import base64
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import jsonpatch
import pytest
import yaml
from aiohttp import web

from embedded_apiserver.apply.patches import merge_patch
from tests.clients.gang_operators import ACCOUNT, MOUNT, OPERATORS, Operator, Site
from tests.clients.servers import SECONDS, Server, StartServer, kind_of, on_both_servers, reason_to_wait, until_served
from tests.clients.workloads import GANG, QUEUE
from tests.controlplane.processes import free_port
from tests.local.process.conftest import runtime_named
from volcanopy.api.bindings import VOLCANO
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, SECRETS, bound
from volcanopy.services.process.certificates import issue, make_authority
from volcanopy_local.cluster import Parts
from volcanopy_local.simulated import nodes

TREES = Path(os.environ.get("OPERATORS") or "/nonexistent")
GROUPS = bound(POD_GROUPS, VOLCANO)
NODE = {"cpu": "4"}
QUEUE_OF_GANGS: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": QUEUE},
    "spec": {"weight": 1},
}


async def give_credentials(operator: Operator, site: Site, server: Server) -> dict[str, str]:
    """Write the credentials of a service account for the operator; the variables that it finds them by."""
    token = await server.token_of_account(operator.namespace, "operator")
    config = yaml.safe_load(server.kubeconfig)
    if not operator.in_pod:
        config["users"][0]["user"] = {"token": token}
        path = site.folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return {"KUBECONFIG": str(path)}
    cluster = config["clusters"][0]["cluster"]
    site.account.mkdir()
    (site.account / "token").write_text(token)
    (site.account / "namespace").write_text(operator.namespace)
    (site.account / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    address = urlsplit(cluster["server"])
    return {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}


def documents(path: Path) -> list[Json]:
    """The objects in a file; the definitions of operators are large."""
    return [each for each in yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each]


def definitions(operator: Operator) -> list[Json]:
    """The definitions of the kinds of an operator; another of the same name is a patch."""
    merged: dict[str, Json] = {}
    for path in (path for pattern in operator.definitions for path in sorted(TREES.glob(pattern))):
        for body in documents(path):
            merged[body["metadata"]["name"]] = merge_patch(merged.get(body["metadata"]["name"]), body)
    return list(merged.values())


def webhooks(operator: Operator) -> list[Json]:
    """The webhooks of an operator as its installation has them."""
    folder = TREES / operator.webhooks
    configurations = documents(folder / "manifests.yaml")
    for configuration in configurations:
        kind = configuration["kind"].removesuffix("WebhookConfiguration").lower()
        names = {"patch.yaml", f"{kind}-patch.yaml", f"patch_{kind}.yaml"}
        for patch in (path for path in folder.rglob("*.yaml") if path.name in names):
            jsonpatch.apply_patch(configuration, yaml.safe_load(patch.read_text()), in_place=True)
    return configurations


def give_certificates(site: Site, configurations: list[Json]) -> None:
    """Write certificates for the webhooks, which are reached by their URLs."""
    authority = make_authority(datetime.now(UTC))
    served = issue(authority, ["127.0.0.1"], datetime.now(UTC))
    (site.certificates / "tls.crt").write_bytes(served.certificate)
    (site.certificates / "tls.key").write_bytes(served.key)
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


def command(operator: Operator, site: Site) -> list[str]:
    """The program with its arguments; one that runs as in a pod sees its folders where they are mounted there."""
    program = str((TREES / operator.program).resolve())
    if operator.java:
        verbose = "-Dorg.apache.logging.log4j.level=INFO"
        return ["java", verbose, "-cp", f"{program}/*", operator.java, *operator.arguments(site)]
    if not operator.in_pod:
        return [program, *operator.arguments(site)]
    mounts = ((site.folder, site.folder), (site.certificates, MOUNT), (site.account, ACCOUNT))
    view = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    view += ["--ro-bind", program, program]
    visible = [str(part) for source, place in mounts for part in ("--bind", source, place)]
    return [*view, *visible, program, *operator.arguments(site)]


@asynccontextmanager
async def proxy_of_services(answers: Mapping[str, Json]) -> AsyncIterator[dict[str, str]]:
    """A proxy that answers for the Services of a workload; the variable by which programs find it."""

    async def respond(request: web.Request) -> web.Response:
        answer = answers.get(request.path)
        return web.Response(status=404) if answer is None else web.json_response(answer)

    application = web.Application()
    application.router.add_get("/{path:.*}", respond)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield {"HTTP_PROXY": f"http://127.0.0.1:{runner.addresses[0][1]}"}
    finally:
        await runner.cleanup()


@asynccontextmanager
async def program(operator: Operator, site: Site, environment: Mapping[str, str]) -> AsyncIterator[None]:
    """The program of an operator; one that ends early, or does not begin, fails the test with its log."""
    process = await asyncio.create_subprocess_exec(
        *command(operator, site),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    log, missing, ready = site.folder / "operator.log", set(operator.ready), asyncio.Event()

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
    try:
        await asyncio.wait((reading, waiting), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), f"{operator.name} did not log {missing}:\n{log.read_text()}"
        yield
        assert process.returncode is None, log.read_text()
    finally:
        waiting.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


@asynccontextmanager
async def running(operator: Operator, server: Server, folder: Path) -> AsyncIterator[None]:
    """The operator at work, with its kinds, its service account and its webhooks."""
    site = Site(folder / operator.namespace, operator.port or free_port(), operator.namespace)
    site.certificates.mkdir(parents=True)
    creator = Creator(server.client, operator.namespace)
    served = definitions(operator)
    await creator.create(served)
    await until_served(server.client, [kind_of(definition) for definition in served])
    credentials = await give_credentials(operator, site, server)
    hooks = webhooks(operator) if operator.webhooks else []
    if operator.secret:  # the operator adds its authority to its webhooks before it serves them
        await creator.create([*reach_by_service(operator, server, site, hooks), *hooks])
    else:
        give_certificates(site, hooks)
    mounting = asyncio.create_task(mount(server.client, operator, site.certificates)) if operator.secret else None
    try:
        async with proxy_of_services(operator.services) as proxy:
            environment = {**os.environ, **proxy, **operator.environment, **credentials}
            async with program(operator, site, environment):
                if not operator.secret:
                    await creator.create(hooks)
                yield
    finally:
        if mounting is not None:
            mounting.cancel()


@pytest.mark.slow("starts an operator, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@on_both_servers
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
async def test_the_pods_of_an_operator_start_together_or_not_at_all(
    operator: Operator, start: StartServer, tmp_path: Path
) -> None:
    """Two pods of the three would fit on the two nodes; with the third node all start, and the operator reports it.

    With the workload its pods go, and its PodGroup if the operator has created it.
    """
    if not (TREES / operator.program).exists() or (operator.java and shutil.which("java") is None):
        pytest.skip(f"needs OPERATORS, a folder with {operator.program}: `make operators`")
    if operator.in_pod:
        runtime_named("bubblewrap")
    beside = [each for each in OPERATORS if each.name in operator.beside]
    objects = [*nodes.manifests(2, NODE), QUEUE_OF_GANGS]
    async with start(objects, Parts(api="both")) as cluster, AsyncExitStack() as programs:
        for each in (*beside, operator):
            await programs.enter_async_context(running(each, cluster, tmp_path))
        creator = Creator(cluster.client)
        *_, workload = await creator.create([*operator.refers, operator.workload("3")])
        kind = await creator.kind(workload)
        [group] = await cluster.until(GROUPS, lambda groups: "cpu" in reason_to_wait(groups))
        assert group["spec"]["minMember"] == GANG
        assert group["spec"]["queue"] == QUEUE
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")] == []

        await creator.create([nodes.manifest("node-3", 2, NODE)])
        await cluster.until(PODS, lambda pods: sum("nodeName" in pod["spec"] for pod in pods) >= GANG)
        [workload] = await cluster.until(kind, lambda objects: any(operator.finished(each) for each in objects))
        pods = (await cluster.client.list(PODS, "default")).items
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {
            group["metadata"]["name"]
        }

        await cluster.client.delete(kind, "default", workload["metadata"]["name"])
        for owned in (PODS, GROUPS) if group["metadata"].get("ownerReferences") else (PODS,):
            await cluster.until_gone(owned)
